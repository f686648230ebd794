import { duration, fixed } from "../format";
import { Section, Table } from "../parts";
import type { Stepped } from "../result";

/** What died, what became of the job, and into what the lost time goes. */
export function Faults({ variant }: { variant: Stepped }) {
  const faults = variant.faults ?? [];
  if (faults.length === 0) return null;
  const parts = faults.flatMap((fault) => fault.parts.map((part) => ({ what: fault.what, ...part })));
  return (
    <Section title="What dies" note="Steps, times and prices elsewhere are those of later steps; what a death costs the job stands here.">
      <Table
        rows={faults}
        columns={[
          { head: "what", text: true, cell: (row) => row.what },
          { head: "at", cell: (row) => duration(row.at_s) },
          { head: "outcome", text: true, cell: (row) => row.outcome },
          { head: "until it has other paths, is back, or the job is aborted", cell: (row) => duration(row.detection_s) },
          { head: "step longer by", cell: (row) => duration(row.stall_s) },
          { head: "later steps", cell: (row) => (row.slower > 1 ? `x ${fixed(row.slower, 3)}` : "as long") },
          { head: "lost", cell: (row) => duration(row.lost_s) },
        ]}
      />
      <h3>Lost time</h3>
      <Table
        rows={parts}
        columns={[
          { head: "what", text: true, cell: (row) => row.what },
          { head: "goes into", text: true, cell: (row) => row.cause },
          { head: "time", cell: (row) => duration(row.seconds) },
        ]}
      />
    </Section>
  );
}
