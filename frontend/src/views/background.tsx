import { microseconds, percent, times, whole } from "../format";
import type { PacketVariant } from "../packet";
import { Section, Table } from "../parts";

/** Background traffic while the job ran, for every variant: a job may be fast because others wait. */
export function Background({ all }: { all: PacketVariant[] }) {
  const rows = all.flatMap(({ name, packet }) => (packet.background ?? []).map((row) => ({ name, ...row })));
  if (rows.length === 0) return null;
  return (
    <Section title="Background traffic" note="Flows that ran while the job did: their own completion times, and those of the same flows on a network without the job.">
      <Table
        rows={rows}
        columns={[
          { head: "variant", text: true, cell: (row) => row.name },
          { head: "flows of", text: true, cell: (row) => row.group },
          { head: "flows", cell: (row) => whole(row.flows) },
          { head: "done with the job", cell: (row) => percent(row.finished_share, 1) },
          { head: "mean", cell: (row) => microseconds(row.mean_us) },
          { head: "p99", cell: (row) => microseconds(row.p99_us) },
          { head: "slowest", cell: (row) => microseconds(row.max_us) },
          { head: "alone, mean", cell: (row) => microseconds(row.alone_mean_us) },
          { head: "alone, p99", cell: (row) => microseconds(row.alone_p99_us) },
          { head: "slowdown", cell: (row) => times(row.slowdown) },
        ]}
      />
    </Section>
  );
}
