/** Requests of serving runs: a waterfall of each, how many wait over time, and latencies by percentile, runs over each other. */

import { useState } from "preact/hooks";
import { lineColor, lineDashes } from "../../colors";
import { axisTime, count, duration, percent, whole } from "../../format";
import { ButtonRow, Legend, Section, StackedBar } from "../../parts";
import { choose as keep, chosen as kept } from "../../place";
import { Plot } from "../../plot";
import { linear, logarithmic } from "../../scales";
import { PARTS } from "../../serving";
import { api } from "../api";
import { at } from "../hall";
import { useLoaded } from "../loaded";
import type { Packed } from "../packed";

type Head = Packed<{ requests: number; end_s: number }>;

const ROWS = 40;
const POINTS = 201;
const STATES = [
  { name: "wait", color: "var(--straggler)" },
  { name: "first token on its way", color: "var(--compute)" },
  { name: "being answered", color: "var(--bubble)" },
];
const DELAYS = [
  { key: "ttft", name: "time to the first token" },
  { key: "tpot", name: "time per further token" },
  { key: "e2e", name: "to the last token" },
] as const;
const ORDERS = [
  { key: "arrival", name: "arrival" },
  { key: "ttft", name: "slowest first token" },
  { key: "e2e", name: "slowest answer" },
] as const;
const DECODE = { name: "further tokens", color: "var(--bubble)" };

interface Source {
  run: string;
  variant: number;
}

const sources = (): Source[] =>
  (kept("runs") ?? "").split(",").filter((each) => each !== "").map((each) => {
    const [run = "", variant = "0"] = each.split(":");
    return { run, variant: Number.parseInt(variant, 10) || 0 };
  });
const nameOf = ({ run, variant }: Source): string => (variant === 0 ? run : `${run}, variant ${variant + 1}`);

/** Which of some names the address has under a key. */
function useChosen(key: string, names: readonly string[]): [number, (index: number) => void] {
  const [index, set] = useState(Math.max(0, names.indexOf(kept(key) ?? "")));
  return [index, (next) => { set(next); keep(key, next === 0 ? null : (names[next] ?? null)); }];
}

export function RequestsPage() {
  const listed = sources();
  const [heads] = useLoaded(() => Promise.all(listed.map(({ run, variant }) => api.requests(run, variant))), []);
  const [shown, show] = useChosen("of", listed.map(nameOf));
  if (listed.length === 0) return <p class="failure">No run is named. <a href="#/">To the runs</a></p>;
  if (heads.error !== undefined) return <p class="failure">{heads.error}. <a href="#/">To the runs</a></p>;
  if (heads.value === undefined) return <p class="muted" role="status">reading requests</p>;
  const [source, head] = [listed[shown] ?? listed[0], heads.value[shown] ?? heads.value[0]];
  return (
    <>
      <h1>Requests of {[...new Set(listed.map(({ run }) => run))].join(", ")}</h1>
      <Delays heads={heads.value} names={listed.map(nameOf)} />
      {listed.length > 1 && <ButtonRow label="Show" names={listed.map(nameOf)} chosen={shown} choose={show} />}
      {source && head && <OverTime key={`over ${shown}`} head={head} />}
      {source && head && <Waterfall key={`rows ${shown}`} source={source} total={head.head.requests} />}
    </>
  );
}

function Delays({ heads, names }: { heads: Head[]; names: string[] }) {
  const [view, set] = useChosen("delay", DELAYS.map(({ key }) => key));
  const { key, name } = DELAYS[view] ?? DELAYS[0];
  const columns = heads.map((head) => head.column(key));
  const all = columns.flatMap((column) => [column[0] ?? 0, column[column.length - 1] ?? 0]).filter((value) => value > 0);
  if (all.length === 0) return null;
  const [low, high] = [Math.min(...all), Math.max(...all)];
  const scale = high > 4 * low ? logarithmic(low * 0.9, high * 1.1) : linear(0, high * 1.05, 7);
  return (
    <Section title="Latencies" note="The share of answered requests that were at least as quick; runs over each other.">
      <ButtonRow label="Of" names={DELAYS.map((each) => each.name)} chosen={view} choose={set} />
      <Plot
        label={`Distribution of the ${name}`}
        series={columns.map((column, index) => ({
          name: names[index] ?? "", color: lineColor(index), dashes: lineDashes(index),
          points: Array.from(column, (value, place): [number, number] => [value, place / Math.max(column.length - 1, 1)]),
        }))}
        x={scale}
        y={linear(0, 1, 5)}
        showX={axisTime}
        showY={(share) => percent(share, 0)}
        titleX={name}
        titleY="of the requests"
        after="all"
        named={names.length > 1}
      />
    </Section>
  );
}

function OverTime({ head }: { head: Head }) {
  const [time, counts] = [head.column("time"), head.column("count")];
  const line = (state: number): [number, number][] => Array.from(time, (value, place): [number, number] => [value, at(counts, state * POINTS + place)]);
  const most = Math.max(1, ...Array.from(counts));
  return (
    <Section title="Requests over time" note={`${whole(head.head.requests)} requests that were answered, in ${duration(head.head.end_s)}: how many of them were where.`}>
      <Plot
        label="Requests that wait and that are answered, over time"
        series={STATES.map(({ name, color }, state) => ({ name, color, points: line(state) }))}
        x={linear(0, head.head.end_s, 8)}
        y={linear(0, most * 1.05, 5)}
        showX={axisTime}
        showY={count}
        titleX="from the first arrival"
        titleY="requests"
        named
      />
    </Section>
  );
}

function Waterfall({ source, total }: { source: Source; total: number }) {
  const [order, setOrder] = useChosen("order", ORDERS.map(({ key }) => key));
  const [first, setFirst] = useState(Number.parseInt(kept("first") ?? "0", 10) || 0);
  const { key } = ORDERS[order] ?? ORDERS[0];
  const [rows] = useLoaded(() => api.requestRows(source.run, source.variant, key, first, ROWS), [key, first]);
  const page = (next: number) => { setFirst(next); keep("first", next === 0 ? null : String(next)); };
  return (
    <Section title="Request by request" note={key === "arrival" ? "Each bar begins where the request arrived." : "Each bar is one request from its arrival on, the slowest first."}>
      <ButtonRow label="In the order of" names={ORDERS.map((each) => each.name)} chosen={order} choose={(index) => { setOrder(index); page(0); }} />
      <Legend items={[...PARTS, DECODE].map(({ name, color }) => ({ name, color }))} />
      {rows.error && <p class="fault">{rows.error}</p>}
      {rows.value && <Bars rows={rows.value} apart={key === "arrival"} />}
      <p class="tools">
        <button disabled={first === 0} onClick={() => page(Math.max(first - ROWS, 0))}>Previous</button>
        <button disabled={first + ROWS >= total} onClick={() => page(first + ROWS)}>Next</button>
        <span class="muted">{whole(first + 1)} to {whole(Math.min(first + ROWS, total))} of {whole(total)}</span>
      </p>
    </Section>
  );
}

function Bars({ rows, apart }: { rows: Packed<{ count: number }>; apart: boolean }) {
  const column = (name: string) => rows.column(name);
  const begin = Math.min(...Array.from(column("arrival_s")));
  const list = Array.from({ length: rows.head.count }, (_, index) => index);
  const start = (index: number): number => (apart ? at(column("arrival_s"), index) - begin : 0);
  const longest = Math.max(...list.map((index) => start(index) + at(column("e2e_s"), index)), 1e-9);
  return (
    <div class="bars">
      {list.map((index) => {
        const parts = PARTS.map(({ key, name, color }) => ({ name, color, value: at(column(key), index) }));
        const further = at(column("e2e_s"), index) - at(column("ttft_s"), index);
        const request = `request ${whole(at(column("row"), index) + 1)}`;
        return (
          <div class="bar-row">
            <span class="name" title={`${whole(at(column("input_tokens"), index))} tokens in, ${whole(at(column("output_tokens"), index))} out`}>{request}</span>
            <StackedBar
              whole={longest}
              parts={[{ name: "", color: "transparent", value: start(index), tip: "" }, ...[...parts, { ...DECODE, value: further }].map((part) => ({ ...part, tip: `${request}: ${part.name} ${duration(part.value)}` }))]}
            />
            <span class="value">{duration(at(column("e2e_s"), index))}</span>
          </div>
        );
      })}
    </div>
  );
}
