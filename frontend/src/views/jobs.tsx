import { count, dollars, duration, fixed, percent } from "../format";
import { Section, Table } from "../parts";
import type { Variant } from "../result";
import type { JobRow, JobsVariant } from "../result.gen";

export const isJobs = (variant: Variant): variant is JobsVariant => "jobs" in variant;

type Figure = JobRow["alone"];

const measure = (figure: Figure): string => {
  const seconds = "step_s" in figure ? figure.step_s : figure.ttft_s.p50;
  return seconds === null ? "—" : duration(seconds);
};

const price = (figure: Figure): string => (figure.usd_per_mtoken ? dollars(figure.usd_per_mtoken.typical) : "—");

const signed = (share: number): string => (share < 0 ? `−${percent(-share)}` : percent(share));

const because = (job: JobRow): string => job.costs.map((cost) => `${cost.job} ${signed(cost.share)}`).join(", ") || "—";

/** Jobs that share the cluster: each alone, beside all others, and what each of these costs it. */
export function Jobs({ variant }: { variant: JobsVariant }) {
  const rounds = variant.rounds.count > 1 ? ` Serving and fabric took ${variant.rounds.count} turns; the last moved ${percent(variant.rounds.moved)}.` : "";
  return (
    <Section title="Jobs on one cluster" note={`Steps and median times to the first token, alone and beside all others.${rounds}`}>
      <Table
        rows={[...variant.jobs]}
        columns={[
          { head: "job", text: true, by: (row) => row.name },
          { head: "kind", text: true, by: (row) => row.kind },
          { head: "accelerators", by: (row) => row.accelerators, show: count },
          { head: "placement", text: true, by: (row) => row.placement.policy },
          { head: "alone", cell: (row) => measure(row.alone) },
          { head: "together", cell: (row) => measure(row.together) },
          { head: "slowdown", cell: (row) => fixed(row.slowdown, 3) },
          { head: "because of", text: true, cell: (row) => because(row) },
          { head: "$/Mtoken alone", cell: (row) => price(row.alone) },
          { head: "together", cell: (row) => price(row.together) },
        ]}
      />
    </Section>
  );
}
