import { useState } from "preact/hooks";
import { lineColor, lineDashes } from "../colors";
import { count, duration, percent } from "../format";
import { ButtonRow } from "../parts";
import { Plot, type Series } from "../plot";
import { linear, logarithmic, type Scale } from "../scales";
import type { Served } from "../serving";
import { label, LOAD } from "./capacity";

interface Sweep {
  key: string;
  unit: string;
  lines: { name: string; points: { x: number; serving: Served["serving"] }[] }[];
}

/** Values of a setting from which on a figure stays within this of its last one: it has stopped to matter. */
const SAME = 0.05;
const FEWEST = 3;

/** A number and its unit, "100 Gb/s" or 4. */
function quantity(value: unknown): { x: number; unit: string } | null {
  const found = /^([\d.]+)\s*(.*)$/.exec(String(value));
  return found === null || found[1] === undefined ? null : { x: Number(found[1]), unit: found[2] ?? "" };
}

/** The setting with the most values that are numbers of one unit, other than load, and the lines that the others make. */
function sweepOf(variants: Served[]): Sweep | null {
  const keys = [...new Set(variants.flatMap(({ settings }) => Object.keys(settings)))].filter((key) => !LOAD.test(key));
  let best: { key: string; unit: string; values: number } | null = null;
  for (const key of keys) {
    const found = variants.map(({ settings }) => quantity(settings[key]));
    const values = new Set(found.map((each) => each?.x)).size;
    const unit = found[0]?.unit ?? "";
    if (found.every((each) => each !== null && each.unit === unit) && values >= Math.max(FEWEST, best?.values ?? 0)) best = { key, unit, values };
  }
  if (best === null) return null;
  const { key, unit } = best;
  const place = (variant: Served): number => quantity(variant.settings[key])?.x ?? 0;
  const others = keys.filter((other) => other !== key && !follows(variants, place, other));
  const groups = new Map<string, { x: number; serving: Served["serving"] }[]>();
  for (const variant of variants) {
    const name = others.map((other) => named(other, variant.settings[other])).join(", ");
    groups.set(name, [...(groups.get(name) ?? []), { x: place(variant), serving: variant.serving }]);
  }
  const lines = [...groups].map(([name, points]) => ({ name, points: points.sort((a, b) => a.x - b.x) }));
  return lines.every(({ points }) => points.length >= FEWEST) ? { key, unit, lines } : null;
}

/** Whether a setting has one value at each place: it moves along with the swept one. */
function follows(variants: Served[], place: (variant: Served) => number, key: string): boolean {
  const seen = new Map<number, string>();
  return variants.every((variant) => {
    const value = String(variant.settings[key]);
    const before = seen.get(place(variant));
    seen.set(place(variant), value);
    return before === undefined || before === value;
  });
}

const words = (key: string): string => (key.split(".").slice(-2).join(" ")).replaceAll("_", " ");
const named = (key: string, value: unknown): string => (quantity(value) === null ? label(value) : `${key.split(".").slice(-1)[0]?.replaceAll("_", " ")} ${String(value)}`);

interface Swept {
  name: string;
  title: string;
  of: (serving: Served["serving"]) => number | null;
  show: (value: number) => string;
  log: boolean;
}

const FIGURES: Swept[] = [
  { name: "most requests/s within the SLO", title: "the most requests/s that meet the SLO", of: ({ capacity }) => capacity?.rate_per_s ?? null, show: count, log: false },
  { name: "TTFT mean", title: "time to the first token, mean", of: ({ ttft_s }) => ttft_s.mean, show: duration, log: true },
  { name: "TTFT p99", title: "time to the first token, p99", of: ({ ttft_s }) => ttft_s.p99, show: duration, log: true },
  { name: "transfers", title: "KV transfer in the mean time to the first token", of: ({ ttft_parts }) => ttft_parts.mean?.transfer_s ?? null, show: duration, log: false },
  { name: "SLO attainment", title: "share of requests within the SLO", of: ({ slo }) => slo.attainment, show: (value) => percent(value, 0), log: false },
  { name: "loaded", title: "share of prompt tokens that were loaded, not computed", of: ({ kv }) => kv.loaded_rate, show: (value) => percent(value, 0), log: false },
];

/** A figure that says something: it is there for every variant, and not zero for all. */
const telling = (figure: Swept, sweep: Sweep): boolean => {
  const values = sweep.lines.flatMap(({ points }) => points.map(({ serving }) => figure.of(serving)));
  return values.every((value) => value !== null) && values.some((value) => value !== 0);
};

function scaleY(values: number[], log: boolean): Scale {
  const [low, high] = [Math.min(...values), Math.max(...values, 1e-9)];
  return log && low > 0 && high > 4 * low ? logarithmic(low * 0.8, high * 1.25) : linear(0, high * 1.05, 5);
}

/** Every value of the setting has its tick. */
function scaleX(values: number[]): Scale {
  const ticks = [...new Set(values)].sort((a, b) => a - b);
  const [low, high] = [ticks[0] ?? 0, ticks[ticks.length - 1] ?? 1];
  return { at: (low > 0 && high / low > 6 ? logarithmic(low, high) : linear(low, high, 5)).at, ticks };
}

/** Figures against the setting that was swept, and from where on more of it stops to matter. */
export function Swept({ variants }: { variants: Served[] }) {
  const [view, setView] = useState(0);
  const sweep = sweepOf(variants);
  if (sweep === null) return null;
  const figures = FIGURES.filter((each) => telling(each, sweep));
  const figure = figures[view] ?? figures[0];
  if (figure === undefined) return null;
  const series: Series[] = sweep.lines.map(({ name, points }, index) => ({
    name: name || figure.name,
    color: lineColor(index),
    dashes: lineDashes(index),
    points: points.map(({ x, serving }): [number, number] => [x, figure.of(serving) ?? 0]),
  }));
  const shown = (x: number): string => `${count(x)}${sweep.unit ? ` ${sweep.unit}` : ""}`;
  return (
    <>
      <h3>Against {words(sweep.key)}</h3>
      <ButtonRow label="Show" names={figures.map(({ name }) => name)} chosen={figures.indexOf(figure)} choose={setView} />
      <Plot
        label={`${figure.title} against ${words(sweep.key)}`}
        series={series}
        x={scaleX(series.flatMap(({ points }) => points.map(([x]) => x)))}
        y={scaleY(series.flatMap(({ points }) => points.map(([, y]) => y)), figure.log)}
        showX={count}
        showY={figure.show}
        titleX={`${words(sweep.key)}${sweep.unit ? `, ${sweep.unit}` : ""}`}
        titleY={figure.title}
        named={series.length > 1}
        dots
      />
      <ul class="plain">
        {series.map(({ name, points }) => <li>{ending(series.length > 1 ? `${name}: ` : "", points, figure, shown)}</li>)}
      </ul>
    </>
  );
}

/** From where on a figure stays where it ends. */
function ending(name: string, points: [number, number][], figure: Swept, shown: (x: number) => string): string {
  const last = points[points.length - 1];
  if (last === undefined) return "";
  const far = points.map(([, y]) => Math.abs(y - last[1]) > SAME * Math.max(Math.abs(last[1]), 1e-12));
  const away = far.lastIndexOf(true);
  const from = points[away + 1] ?? last;
  const value = figure.show(last[1]);
  if (away < 0) return `${name}${value} everywhere, within ${percent(SAME, 0)}`;
  if (from === last) return `${name}still moving at ${shown(last[0])}: ${value}`;
  return `${name}from ${shown(from[0])} on within ${percent(SAME, 0)} of the ${value} at ${shown(last[0])}`;
}
