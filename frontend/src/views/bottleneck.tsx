import { duration, percent } from "../format";
import { Section, Table } from "../parts";
import type { Stepped } from "../result";

export function Bottleneck({ variant }: { variant: Stepped }) {
  const { ranking, headline, name } = variant.bottleneck;
  const best = Math.max(...ranking.map((row) => row.gain), 1e-9);
  return (
    <Section title="What would help most" note={<>Each resource made better by itself, the step simulated again. {headline}</>}>
      <Table
        rows={ranking}
        mark={(row) => row.resource === name}
        columns={[
          { head: "resource", text: true, cell: (row) => row.resource },
          { head: "made", wide: true, cell: (row) => (typeof row.factor === "number" ? `${row.factor} ×` : row.factor) },
          { head: "step", wide: true, cell: (row) => duration(row.step_seconds) },
          { head: "shorter by", cell: (row) => percent(row.gain, 2) },
          { head: "", text: true, wide: true, cell: (row) => <div class="gain"><span style={{ width: `${(100 * Math.max(row.gain, 0)) / best}%` }} /></div> },
        ]}
      />
    </Section>
  );
}
