import { useState } from "preact/hooks";
import { lineColor, lineDashes } from "../colors";
import { arrow, bitRate, bytes, tick } from "../format";
import type { PacketFigures, SenderRow } from "../result.gen";
import { ButtonRow, Section, Table } from "../parts";
import { Plot, type Series } from "../plot";
import { linear } from "../scales";

type SenderSamples = NonNullable<PacketFigures["flows"]>;

interface Metric {
  name: string;
  of: (row: SenderRow) => number[] | undefined;
  show: (value: number) => string;
}

const METRICS: Metric[] = [
  { name: "rate", of: (row) => row.rate_gbps, show: (gbps) => (gbps === 0 ? "0" : bitRate(gbps * 1e9)) },
  { name: "window", of: (row) => row.window_kb, show: (kb) => (kb === 0 ? "0" : bytes(kb * 1e3)) },
];

const some = (values: number[] | undefined): values is number[] => values !== undefined && values.some((value) => value > 0);

/** What congestion control did to a few flows. */
export function Senders({ flows }: { flows: SenderSamples }) {
  const metrics = METRICS.filter((metric) => flows.rows.some((row) => some(metric.of(row))));
  const [at, setAt] = useState(0);
  const [only, setOnly] = useState<string | null>(null);
  const metric = metrics[at];
  if (metric === undefined) return null;
  const series = flows.rows.map((row, index): Series => ({
    name: arrow(row.flow),
    color: lineColor(index),
    dashes: lineDashes(index),
    faint: only !== null && only !== arrow(row.flow),
    points: (metric.of(row) ?? []).map((value, sample) => [flows.time_us[sample] ?? 0, value]),
  }));
  const most = Math.max(...series.flatMap((each) => each.points.map(([, value]) => value)));
  return (
    <Section title="What the senders did" note="Rate and window that congestion control gave to a few flows, as sampled. A flow's name brings it forward.">
      {metrics.length > 1 && <ButtonRow label="Show" names={metrics.map((each) => each.name)} chosen={at} choose={setAt} />}
      <Plot
        label={`${metric.name} of a few flows over time`}
        series={only === null ? series : series.filter((each) => each.name === only || each.faint)}
        steps
        x={linear(flows.time_us[0] ?? 0, flows.time_us[flows.time_us.length - 1] ?? 1, 8)}
        y={linear(0, most * 1.05, 5)}
        showX={tick}
        showY={metric.show}
        titleX="time"
        titleY={metric.name}
      />
      <div class="names" role="group" aria-label="Flows">
        {series.map((each) => (
          <button aria-pressed={only === each.name} onClick={() => setOnly(only === each.name ? null : each.name)}>
            <svg width="22" height="8" aria-hidden="true"><line x1="0" x2="22" y1="4" y2="4" class="curve" style={{ stroke: each.color, strokeDasharray: each.dashes }} /></svg>
            {each.name}
          </button>
        ))}
      </div>
      <details>
        <summary>The same as numbers</summary>
        <Numbers flows={flows} />
      </details>
    </Section>
  );
}

function Numbers({ flows }: { flows: SenderSamples }) {
  const cell = (values: number[] | undefined, of: (values: number[]) => number | undefined, show: (value: number) => string) => {
    const value = some(values) ? of(values) : undefined;
    return value === undefined ? "—" : show(value);
  };
  const [rate, size] = METRICS.map((metric) => metric.show);
  if (rate === undefined || size === undefined) return null;
  return (
    <Table
      rows={flows.rows}
      columns={[
        { head: "flow", text: true, cell: (row) => arrow(row.flow) },
        { head: "mean rate", cell: (row) => cell(row.rate_gbps, (all) => all.reduce((sum, value) => sum + value, 0) / all.length, rate) },
        { head: "least", cell: (row) => cell(row.rate_gbps, (all) => Math.min(...all), rate) },
        { head: "most", cell: (row) => cell(row.rate_gbps, (all) => Math.max(...all), rate) },
        { head: "least window", cell: (row) => cell(row.window_kb, (all) => Math.min(...all), size) },
        { head: "most", cell: (row) => cell(row.window_kb, (all) => Math.max(...all), size) },
        { head: "last", cell: (row) => cell(row.window_kb, (all) => all[all.length - 1], size) },
      ]}
    />
  );
}
