import { duration, percent } from "../format";
import { Section, Table } from "../parts";
import type { Stepped } from "../result";

export function Bottleneck({ variant }: { variant: Stepped }) {
  const { ranking, headline, name, changes } = variant.bottleneck;
  const best = Math.max(...ranking.map((row) => row.gain), ...(changes ?? []).map((row) => row.gain), 1e-9);
  const bar = (gain: number) => <div class="gain"><span style={{ width: `${(100 * Math.max(gain, 0)) / best}%` }} /></div>;
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
          { head: "drawn", text: true, wide: true, cell: (row) => bar(row.gain) },
        ]}
      />
      {changes && changes.length > 0 && (
        <>
          <p class="note">Another network or layout, one at a time, the step simulated again:</p>
          <Table
            rows={changes}
            columns={[
              { head: "changed to", text: true, cell: (row) => (row.bound ? `${row.name} (a bound: none is sold)` : row.name) },
              { head: "step", wide: true, cell: (row) => duration(row.step_seconds) },
              { head: "shorter by", cell: (row) => percent(row.gain, 2) },
              { head: "drawn", text: true, wide: true, cell: (row) => bar(row.gain) },
            ]}
          />
        </>
      )}
    </Section>
  );
}
