import { count, duration, fixed, percent } from "../format";
import { Section, Table } from "../parts";
import type { Stepped } from "../result";
import type { FaultFigures } from "../result.gen";

const hit = (fault: FaultFigures): string =>
  fault.tiers.map((tier) => `${count(tier.links)} of ${count(tier.of)} links of ${tier.tier} (${percent(tier.share)})`).join(", ") || "no link";

const BECAME = { finished: "the job finishes", died: "the job dies, and starts again after the repair", stalled: "the job stands still until it is aborted, and starts again" };

/** What went wrong, what it hit, what became of the job, and into what the lost time goes. */
export function Faults({ variant }: { variant: Stepped }) {
  const faults = variant.faults ?? [];
  if (faults.length === 0) return null;
  const parts = faults.flatMap((fault) => fault.parts.map((part) => ({ what: fault.what, ...part })));
  return (
    <Section
      title={`Faults: ${BECAME[variant.outcome]}`}
      note={variant.step.without_faults_s === undefined ? undefined : `A mean step takes ${duration(variant.step.seconds)} with them and ${duration(variant.step.without_faults_s)} without. Where the step goes is shown of the steps after a death; what is lost once is in the mean step, the time of the job and its price.`}
    >
      <Table
        rows={faults}
        columns={[
          { head: "what", text: true, by: (row) => row.what },
          { head: "hits", text: true, cell: hit },
          { head: "at", by: (row) => row.at_s, show: duration },
          { head: "outcome", text: true, by: (row) => row.outcome },
          { head: "until it has other paths, is back, or the job is aborted", by: (row) => row.detection_s, show: duration },
          { head: "step longer by", by: (row) => row.stall_s, show: duration },
          { head: "steps with it", cell: (row) => (row.slower > 1 ? `x ${fixed(row.slower, 3)}` : "as long") },
          { head: "lost once", by: (row) => row.lost_s, show: duration },
        ]}
      />
      {parts.length > 0 && <h3>Lost time</h3>}
      {parts.length > 0 && (
        <Table
          rows={parts}
          columns={[
            { head: "what", text: true, by: (row) => row.what },
            { head: "goes into", text: true, by: (row) => row.cause },
            { head: "time", by: (row) => row.seconds, show: duration },
          ]}
        />
      )}
    </Section>
  );
}
