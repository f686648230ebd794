/** One colour a cause, the same in every chart; told apart in light, dark and by colour-blind eyes (Okabe-Ito order). */

const CAUSES: Record<string, string> = {
  compute: "var(--compute)",
  bandwidth: "var(--bandwidth)",
  latency: "var(--latency)",
  contention: "var(--contention)",
  straggler: "var(--straggler)",
  bubble: "var(--bubble)",
  data: "var(--data)",
  checkpoint: "var(--checkpoint)",
};

export const causeColor = (cause: string): string => CAUSES[cause] ?? "var(--other)";

/** Parts of charts of any kind of work; networks by cause: scale-out full, scale-up lighter. */
const PARTS: Record<string, string> = {
  work: "var(--compute)",
  queue: "var(--straggler)",
  collectives: "var(--bandwidth)",
  "KV transfer": "var(--contention)",
  setup: "var(--bubble)",
  hang: "var(--latency)",
  lost: "var(--bandwidth)",
  idle: "var(--other)",
  turnaround: "var(--data)",
  "out of service": "var(--hot)",
  "kernels slowed by scale-out": "var(--hot)",
  "kernels slowed by scale-up": "color-mix(in oklab, var(--hot) 55%, var(--panel))",
};

export const partColor = (name: string): string => {
  const up = name.replace(/^scale-(up|out) /, "");
  const color = PARTS[name] ?? causeColor(up);
  return name.startsWith("scale-up ") ? `color-mix(in oklab, ${color} 55%, var(--panel))` : color;
};

/** Causes in the order in which they are stacked: work first, then what the network takes, then the rest. */
export const CAUSE_ORDER = ["compute", "bandwidth", "contention", "latency", "straggler", "bubble", "data", "checkpoint"];

export const causeRank = (cause: string): number => {
  const at = CAUSE_ORDER.indexOf(cause);
  return at < 0 ? CAUSE_ORDER.length : at;
};

const STREAMS: Record<string, string> = {
  compute: "var(--compute)",
  tp: "var(--bandwidth)",
  pp: "var(--bubble)",
  dp: "var(--contention)",
  edp: "var(--contention)",
  ep: "var(--straggler)",
  cp: "var(--latency)",
  data: "var(--data)",
  checkpoint: "var(--checkpoint)",
};

export const groupColor = (group: string): string => STREAMS[group] ?? "var(--other)";

/** Load from 0 to 1 as a colour: cool to hot through the page's own tokens, readable in print by its lightness. */
export function loadColor(load: number): string {
  const x = Math.min(Math.max(load, 0), 1);
  return `color-mix(in oklab, var(--hot) ${(x * 100).toFixed(0)}%, var(--cool))`;
}

const LINES = ["--accent", "--bandwidth", "--compute", "--contention", "--latency", "--straggler", "--data", "--checkpoint"];
const DASHES = [undefined, "6 3", "2 3"];

/** Colour and dashes of the n-th of several lines; together they differ for 24. */
export const lineColor = (index: number): string => `var(${LINES[index % LINES.length]})`;
export const lineDashes = (index: number): string | undefined => DASHES[Math.floor(index / LINES.length) % DASHES.length];
