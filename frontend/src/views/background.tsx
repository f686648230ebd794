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
          { head: "variant", text: true, by: (row) => row.name },
          { head: "flows of", text: true, by: (row) => row.group },
          { head: "flows", by: (row) => row.flows, show: whole },
          { head: "done with the job", cell: (row) => percent(row.finished_share, 1) },
          { head: "mean", by: (row) => row.mean_us, show: microseconds },
          { head: "p99", by: (row) => row.p99_us, show: microseconds },
          { head: "slowest", by: (row) => row.max_us, show: microseconds },
          { head: "alone, mean", by: (row) => row.alone_mean_us, show: microseconds },
          { head: "alone, p99", by: (row) => row.alone_p99_us, show: microseconds },
          { head: "slowdown", by: (row) => row.slowdown, show: times },
        ]}
      />
    </Section>
  );
}
