import { bytes, count, duration, gibibytes, percent } from "../format";
import { Section, Table } from "../parts";
import type { Stepped } from "../result";

/** Rows of the collectives that are shown at once; the rest folds away. */
const SHOWN = 10;

export function Collectives({ variant }: { variant: Stepped }) {
  if (variant.collectives.length === 0) return null;
  const byTime = [...variant.collectives].sort((a, b) => b.count * b.mean_s - a.count * a.mean_s);
  const rest = byTime.slice(SHOWN);
  return (
    <Section title="Collectives" note="What runs, what the cost model chose, how long one takes alone and how long it took on average in this step; those that take most first.">
      <CollectiveRows rows={byTime.slice(0, SHOWN)} />
      {rest.length > 0 && (
        <details>
          <summary>{rest.length} more</summary>
          <CollectiveRows rows={rest} />
        </details>
      )}
    </Section>
  );
}

function CollectiveRows({ rows }: { rows: Stepped["collectives"] }) {
  return (
    <Table
      rows={rows}
      columns={[
        { head: "communicator", text: true, by: (row) => row.group },
        { head: "kind", text: true, by: (row) => row.kind },
        { head: "size", by: (row) => row.size_bytes, show: bytes },
        { head: "a step", by: (row) => row.count, show: count },
        { head: "algorithm", text: true, by: (row) => row.algorithm },
        { head: "protocol", text: true, by: (row) => row.protocol },
        { head: "alone", by: (row) => row.alone_s, show: duration },
        { head: "mean", by: (row) => row.mean_s, show: duration },
      ]}
    />
  );
}

export function Memory({ variant }: { variant: Stepped }) {
  if (variant.memory.rows.length === 0) return null;
  return (
    <Section title="Memory of one accelerator, GiB by pipeline stage">
      <Table
        rows={variant.memory.rows}
        columns={[
          { head: "stage", cell: (row) => String(row.stage) },
          { head: "parameters", by: (row) => row.parameters_bytes, show: gibibytes },
          { head: "gradients", by: (row) => row.gradients_bytes, show: gibibytes },
          { head: "optimizer", by: (row) => row.optimizer_bytes, show: gibibytes },
          { head: "activations", by: (row) => row.activations_bytes, show: gibibytes },
          { head: "buffers", by: (row) => row.buffers_bytes, show: gibibytes },
          { head: "total", by: (row) => row.total_bytes, show: gibibytes },
          { head: "capacity", by: (row) => row.capacity_bytes, show: gibibytes },
        ]}
      />
    </Section>
  );
}

/** The layout that `auto` chose, and its runners-up. */
export function Layouts({ variant }: { variant: Stepped }) {
  if (!("layouts" in variant) || !variant.layouts || variant.layouts.length === 0) return null;
  const first = variant.layouts[0]?.step_seconds ?? 1;
  return (
    <Section title="Layouts" note="What auto chose, and the runners-up: steps simulated on this network, or estimated where a simulation was not worth it.">
      <Table
        rows={[...variant.layouts]}
        mark={(row) => row === variant.layouts?.[0]}
        columns={[
          { head: "layout", text: true, by: (row) => row.layout.words },
          { head: "step", by: (row) => row.step_seconds, show: duration },
          { head: "against the chosen", cell: (row) => `${row.step_seconds < first ? "" : "+"}${percent(row.step_seconds / first - 1)}` },
          { head: "memory of the fullest rank", cell: (row) => `${gibibytes(row.memory_bytes)} of ${gibibytes(row.capacity_bytes)}` },
          { head: "step is", text: true, cell: (row) => (row.simulated ? "simulated" : "estimated") },
        ]}
      />
    </Section>
  );
}
