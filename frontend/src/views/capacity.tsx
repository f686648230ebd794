import { useState } from "preact/hooks";
import { lineColor, lineDashes } from "../colors";
import { count, duration, percent, whole } from "../format";
import { ButtonRow, Table } from "../parts";
import { Plot, type Series } from "../plot";
import { linear, logarithmic, type Scale } from "../scales";
import type { FrontPoint, LoadPoint } from "../result.gen";
import type { Served } from "../serving";

interface Load extends LoadPoint {
  variant: string;
}

/** Loads by variant: those of the capacity search, or the runs themselves where several loads were compared. */
function loadsOf(variants: Served[]): { name: string; points: Load[] }[] {
  const searched = variants.filter(({ serving }) => serving.capacity !== null);
  if (searched.length > 0)
    return searched.map(({ name, serving }) => ({ name, points: (serving.capacity?.points ?? []).map((point) => ({ ...point, variant: name })) }));
  const groups = new Map<string, Load[]>();
  for (const { name, settings, serving } of variants) {
    const others = besideLoad(settings);
    const group = groups.get(others) ?? [];
    group.push({
      variant: name, rate_per_s: serving.requests.rate_per_s, attainment: serving.slo.attainment, goodput_per_s: serving.slo.goodput_rps,
      ttft_p50_s: serving.ttft_s.p50, ttft_p99_s: serving.ttft_s.p99, tpot_p50_s: serving.tpot_s.p50, tpot_p99_s: serving.tpot_s.p99,
      output_tokens_per_s: serving.throughput.output_tokens_per_s, requests: serving.requests.count, overloaded: serving.outcome === "overload",
    });
    groups.set(others, group);
  }
  return [...groups]
    .filter(([, points]) => new Set(points.map((point) => point.rate_per_s)).size > 1)
    .map(([name, points]) => ({ name: name || "load", points: points.sort((a, b) => a.rate_per_s - b.rate_per_s) }));
}

/** Settings that are the load itself. */
export const LOAD = /^((workload\.serving\.)?requests\.)?(rate|load)$/;

/** What a variant is besides its load. */
function besideLoad(settings: Record<string, unknown>): string {
  return Object.entries(settings).filter(([key]) => !LOAD.test(key)).map(([, value]) => label(value)).join(", ");
}

/** A setting in few words: of a set of pools, which there are and of how many replicas; of others, what they say. */
export function label(value: unknown): string {
  if (typeof value !== "object" || value === null) return String(value);
  const said = Object.entries(value).map(([name, inner]) => {
    if (typeof inner === "object" && inner !== null) return `${name} ${(inner as { replicas?: number }).replicas ?? ""}`.trim();
    return inner === true ? name : String(inner);
  });
  return said.join(" + ");
}

/** Points of the front by what the variants are besides their load. */
function frontsOf(variants: Served[]): { name: string; points: FrontPoint[] }[] {
  if (variants.some(({ serving }) => serving.pareto.length > 1)) return variants.map(({ name, serving }) => ({ name, points: serving.pareto }));
  const groups = new Map<string, FrontPoint[]>();
  for (const { name, settings, serving } of variants) {
    const key = besideLoad(settings) || (Object.keys(settings).length > 0 ? "load" : name);
    groups.set(key, [...(groups.get(key) ?? []), ...serving.pareto]);
  }
  return [...groups].map(([name, points]) => ({ name, points }));
}

const FIGURES: { name: string; of: (point: LoadPoint) => number | null; show: (value: number) => string; log: boolean; title: string }[] = [
  { name: "SLO attainment", of: (point) => point.attainment, show: (value) => percent(value, 0), log: false, title: "share of requests within the SLO" },
  { name: "TTFT p99", of: (point) => point.ttft_p99_s, show: duration, log: true, title: "time to the first token, p99" },
  { name: "TTFT p50", of: (point) => point.ttft_p50_s, show: duration, log: true, title: "time to the first token, p50" },
  { name: "TPOT p99", of: (point) => point.tpot_p99_s, show: duration, log: true, title: "time per further token, p99" },
  { name: "goodput", of: (point) => point.goodput_per_s, show: count, log: false, title: "requests/s within the SLO" },
];

function scaleOf(values: number[], log: boolean, least = 0): Scale {
  const high = Math.max(...values, 1e-9);
  const low = Math.min(...values.filter((value) => value > 0), high);
  return log ? logarithmic(low * 0.8, Math.max(high * 1.2, low * 1.6)) : linear(least, high * 1.05, 5);
}

/** Latency, goodput and SLO attainment against the load. */
export function Curves({ variants, chosen }: { variants: Served[]; chosen: number }) {
  const [view, setView] = useState(0);
  const groups = loadsOf(variants);
  const figure = FIGURES[view] ?? FIGURES[0];
  if (groups.length === 0 || figure === undefined) return null;
  const series: Series[] = groups.map(({ name, points }, index) => ({
    name,
    color: lineColor(index),
    dashes: lineDashes(index),
    faint: groups.length > 8 && variants[chosen]?.name !== name,
    points: points.flatMap((point): [number, number][] => {
      const value = figure.of(point);
      return value === null || point.overloaded && figure.log ? [] : [[point.rate_per_s, value]];
    }),
  }));
  const values = series.flatMap((each) => each.points.map(([, value]) => value));
  const rates = series.flatMap((each) => each.points.map(([rate]) => rate));
  return (
    <>
      <h3>Against the load</h3>
      <ButtonRow label="Show" names={FIGURES.map(({ name }) => name)} chosen={view} choose={setView} />
      <Plot
        label={`${figure.title} against requests a second`}
        series={series}
        x={linear(0, Math.max(...rates, 1e-9) * 1.02, 8)}
        y={figure.name === "SLO attainment" ? linear(0, 1, 5) : scaleOf(values, figure.log)}
        showX={count}
        showY={figure.show}
        titleX="requests/s"
        titleY={figure.title}
        named
      />
      <details>
        <summary>Every load as numbers</summary>
        <Table
          rows={groups.flatMap(({ name, points }) => points.map((point) => ({ name, point })))}
          columns={[
            { head: "of", text: true, by: (row) => row.name },
            { head: "requests/s", by: ({ point }) => point.rate_per_s, show: count },
            { head: "requests", by: ({ point }) => point.requests, show: whole },
            ...FIGURES.map((each) => ({ head: each.name, cell: ({ point }: { point: LoadPoint }) => { const value = each.of(point); return value === null ? "—" : each.show(value); } })),
            { head: "state", text: true, cell: ({ point }) => (point.overloaded ? "overload" : "") },
          ]}
        />
      </details>
    </>
  );
}

/** The Pareto front of interactivity against throughput, per accelerator and per dollar. */
export function Fronts({ variants }: { variants: Served[] }) {
  const [view, setView] = useState(0);
  const figure = view === 0 ? ("per_gpu" as const) : ("per_usd" as const);
  const mark = view === 0 ? ("front" as const) : ("front_usd" as const);
  const rows = variants.flatMap(({ name, serving }) => serving.pareto.map((point) => ({ name, point })));
  const groups = frontsOf(variants);
  if (new Set(rows.map(({ point }) => point.rate_per_s)).size < 2) return null;
  const best = rows.filter(({ point }) => point[mark]).sort((a, b) => a.point.per_user - b.point.per_user);
  const title = view === 0 ? "answer tokens/s per GPU" : "answer tokens per dollar";
  const series: Series[] = [
    { name: "the front", color: "var(--muted)", dashes: "2 3", points: best.map(({ point }) => [point.per_user, point[figure]]) },
    ...groups.map(({ name, points }, index) => ({
      name,
      color: lineColor(index),
      dashes: lineDashes(index),
      points: [...points].sort((a, b) => a.per_user - b.per_user).map((point): [number, number] => [point.per_user, point[figure]]),
    })),
  ];
  const x = rows.map(({ point }) => point.per_user);
  return (
    <>
      <h3>Interactivity against throughput</h3>
      <ButtonRow label="Throughput" names={["per GPU", "per dollar"]} chosen={view} choose={setView} />
      {groups.some(({ points }) => points.length > 1) && (
        <>
          <Plot
            label={`${title} against tokens/s per user`}
            series={series}
            x={linear(Math.min(...x) * 0.95, Math.max(...x) * 1.03, 7)}
            y={scaleOf(rows.map(({ point }) => point[figure]), false)}
            showX={count}
            showY={count}
            titleX="tokens/s per user, median"
            titleY={title}
            named
          />
        </>
      )}
      <details open={best.length <= 6}>
        <summary>{best.length === 1 ? "The point" : `The ${best.length} points`} on the front</summary>
        <Table
          rows={best}
          columns={[
            { head: "on the front", text: true, by: (row) => row.name },
            { head: "requests/s", by: ({ point }) => point.rate_per_s, show: count },
            { head: "tokens/s per user", by: ({ point }) => point.per_user, show: count },
            { head: "answer tokens/s per GPU", by: ({ point }) => point.per_gpu, show: count },
            { head: "answer tokens per $", by: ({ point }) => point.per_usd, show: count },
          ]}
        />
      </details>
    </>
  );
}
