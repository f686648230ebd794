import { useState } from "preact/hooks";
import { lineColor, lineDashes } from "../colors";
import { arrow, bytes, microseconds, percent, tick, times, whole } from "../format";
import type { PacketVariant } from "../packet";
import type { TailRow } from "../result.gen";
import { ButtonRow, Figure, Legend, Section, Table } from "../parts";
import { Plot, type Series } from "../plot";
import { linear, logarithmic } from "../scales";

/** Beyond this ratio of slowest to fastest the axis of time is logarithmic. */
const WIDE = 12;

const numbers = (values: (number | null)[]): number[] => values.filter((value) => value !== null);

function headline({ packet }: PacketVariant): string {
  const { max, p50 } = packet.fct_us;
  const slowest = packet.tails.find((row) => row.group === "all")?.slowest;
  const finished = packet.flows_finished ?? packet.tails[0]?.flows;
  if (max === null || p50 === null || finished === undefined) return "No flow has finished.";
  const all = packet.flows_total ?? finished;
  const share = finished === all ? `All ${whole(all)} flows finished` : `${whole(finished)} of ${whole(all)} flows finished`;
  const named = slowest === undefined ? "the slowest" : `the slowest, ${arrow(slowest)},`;
  return `${share}; ${named} took ${microseconds(max)}, ${times(max / p50)} the median.`;
}

/** Distribution of completion times, all fabrics in one chart, and the tails of the chosen one. */
export function Completion({ variant, all }: { variant: PacketVariant; all: PacketVariant[] }) {
  const { packet } = variant;
  const { min, mean, p50, p99, p999, max } = packet.fct_us;
  const show = (value: number | null) => (value === null ? "—" : microseconds(value));
  return (
    <Section title="Flow completion times" note="From a flow's start until its sender has the last acknowledgement; percentiles by nearest rank.">
      <p class="headline">{headline(variant)}</p>
      <div class="figures">
        <Figure name="mean" value={show(mean)} />
        <Figure name="fastest" value={show(min)} />
        <Figure name="p50" value={show(p50)} />
        <Figure name="p99" value={show(p99)} />
        <Figure name="p99.9" value={show(p999)} />
        <Figure name="slowest" value={show(max)} />
      </div>
      {packet.fct_cdf.length > 1 && <Distribution variant={variant} all={all} />}
      {(packet.tails.length > 1 || all.length === 1) && <><h3>Tails by group of flows</h3><Tails rows={packet.tails} /></>}
      {all.length > 1 && <><h3>The same for every variant</h3><Tails rows={all.flatMap(({ name, packet: { tails } }) => tails.slice(0, 1).map((row) => ({ ...row, group: name })))} named="variant" /></>}
    </Section>
  );
}

function curves(variant: PacketVariant, all: PacketVariant[], tail: boolean): Series[] {
  return all.map((each, index) => {
    const one = 1 / (each.packet.flows_finished ?? each.packet.tails[0]?.flows ?? 1);
    return {
      name: each.name,
      color: lineColor(index),
      dashes: lineDashes(index),
      faint: each.name !== variant.name,
      points: [[each.packet.fct_us.min ?? 0, tail ? 1 : 0], ...each.packet.fct_cdf.map(([us, share]): [number, number] => [us, tail ? 1 - share + one : share])],
    };
  });
}

function Distribution({ variant, all }: { variant: PacketVariant; all: PacketVariant[] }) {
  const [view, setView] = useState(0);
  const tail = view === 1;
  const series = curves(variant, all, tail);
  const low = Math.min(...numbers(all.map((each) => each.packet.fct_us.min)));
  const high = Math.max(...numbers(all.map((each) => each.packet.fct_us.max)));
  const least = Math.min(...series.flatMap((each) => each.points.slice(1).map(([, share]) => share)));
  const slack = (high - low) * 0.04 || high * 0.04;
  return (
    <>
      <ButtonRow label="Show" names={["all flows", "the tail"]} chosen={view} choose={setView} />
      {all.length > 1 && <Legend items={series.map(({ name, color, dashes }) => ({ name, color, dashes }))} />}
      <Plot
        label={tail ? "Share of flows that took at least this long" : "Share of flows that took no longer"}
        series={series}
        steps
        {...(tail ? { after: "none" } : {})}
        x={high > WIDE * low ? logarithmic(low * 0.9, high * 1.1) : linear(Math.max(0, low - slack), high + slack, 8)}
        y={tail ? logarithmic(Math.min(least, 0.1), 1) : linear(0, 1, 5)}
        showX={tick}
        showY={(share) => percent(share, share > 0 && share < 0.01 ? 2 : share < 1 && tail ? 1 : 0)}
        titleX="completion time"
        titleY={tail ? "share of flows that took at least this long" : "share of flows that took no longer"}
      />
      <details>
        <summary>The curve of {variant.name} as numbers</summary>
        <Table
          rows={sampled(variant.packet.fct_cdf)}
          columns={[
            { head: "completion time", by: ([us]) => us, show: microseconds },
            { head: "share that took no longer", cell: ([, share]) => percent(share, 2) },
          ]}
        />
        {variant.packet.payload_bytes !== undefined && <p class="note">{bytes(variant.packet.payload_bytes)} of payload delivered{variant.packet.last_finish_us == null ? "" : `, the last of it at ${microseconds(variant.packet.last_finish_us)}`}.</p>}
      </details>
    </>
  );
}

/** About twenty rows, with the last. */
function sampled<Row>(rows: Row[]): Row[] {
  const every = Math.ceil(rows.length / 20);
  return rows.filter((_, index) => (rows.length - 1 - index) % every === 0);
}

function Tails({ rows, named = "flows of" }: { rows: TailRow[]; named?: string }) {
  return (
    <Table
      rows={rows}
      columns={[
        { head: named, text: true, by: (row) => row.group },
        { head: "flows", by: (row) => row.flows, show: whole },
        { head: "mean", by: (row) => row.mean_us, show: microseconds },
        { head: "p50", by: (row) => row.p50_us, show: microseconds },
        { head: "p99", by: (row) => row.p99_us, show: microseconds },
        { head: "p99.9", by: (row) => row.p999_us, show: microseconds },
        { head: "slowest", by: (row) => row.max_us, show: microseconds },
        { head: "slowest / p50", cell: (row) => times(row.max_us / row.p50_us) },
        { head: "which", text: true, cell: (row) => arrow(row.slowest) },
      ]}
    />
  );
}
