/** Numbers for people: three to four significant digits, the unit always there. */

/** `digits` significant digits, trailing zeros kept so that columns line up; counts drop them. */
function significant(value: number, digits = 3, keepZeros = true): string {
  if (value === 0) return "0";
  const magnitude = Math.floor(Math.log10(Math.abs(value)));
  const decimals = Math.min(Math.max(0, digits - 1 - magnitude), 6);
  return value.toLocaleString("en-US", { maximumFractionDigits: decimals, minimumFractionDigits: keepZeros ? decimals : 0 });
}

function stepped(value: number, unit: string, steps: [number, string][]): string {
  for (const [scale, prefix] of steps) if (Math.abs(value) >= scale) return `${significant(value / scale)} ${prefix}${unit}`;
  return `${significant(value)} ${unit}`;
}

const SI: [number, string][] = [[1e18, "E"], [1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];

export const percent = (share: number, digits = 1): string => `${(share * 100).toFixed(digits)} %`;
export const count = (value: number): string => significant(value, 4, false);
export const power = (watts: number): string => stepped(watts, "W", SI);
export const energy = (joules: number): string => stepped(joules, "J", SI);
export const bytes = (value: number): string => stepped(value, "B", SI);
export const gibibytes = (value: number): string => `${(value / 2 ** 30).toFixed(1)}`;
export const bitRate = (bps: number): string => {
  const [scale, prefix] = SI.find(([least]) => bps >= least) ?? [1, ""];
  return `${significant(bps / scale, 4, false)} ${prefix}b/s`;
};
export const dollars = (usd: number): string => {
  if (Math.abs(usd) >= 1000) return "$" + stepped(usd, "", [[1e9, "B"], [1e6, "M"], [1e3, "k"]]).replace(" ", "");
  return "$" + significant(usd);
};

export function duration(seconds: number): string {
  if (seconds === 0) return "0 s";
  const size = Math.abs(seconds);
  if (size >= 2 * 86400) return `${significant(seconds / 86400)} days`;
  if (size >= 2 * 3600) return `${significant(seconds / 3600)} h`;
  if (size >= 120) return `${significant(seconds / 60)} min`;
  if (size >= 1) return `${significant(seconds, 4)} s`;
  if (size >= 1e-3) return `${significant(seconds * 1e3)} ms`;
  return `${significant(seconds * 1e6)} us`;
}

export const band = (value: { low: number; typical: number; high: number }, show: (x: number) => string): string =>
  `${show(value.low)} – ${show(value.typical)} – ${show(value.high)}`;

/** Microseconds as a time. */
export const microseconds = (us: number): string => duration(us / 1e6);
export const times = (factor: number): string => `${significant(factor)} x`;
/** An integer in full. */
export const whole = (value: number): string => Math.round(value).toLocaleString("en-US");
/** "h3->h7" with the arrow that is meant. */
export const arrow = (text: string): string => text.replaceAll("->", "→");
/** Microseconds on an axis: no trailing zeros. */
export function tick(us: number): string {
  const [scale, unit] = us >= 1e6 ? [1e6, "s"] : us >= 1e3 ? [1e3, "ms"] : [1, "us"];
  return `${significant(us / scale, 3, false)} ${unit}`;
}
