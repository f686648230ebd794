import { List, Section, Table } from "../parts";
import type { Result } from "../result.gen";

export function Provenance({ result }: { result: Result }) {
  const { provenance } = result;
  return (
    <Section title="Where the numbers come from">
      <dl>
        {provenance.created !== undefined && <><dt>created</dt><dd>{provenance.created}</dd></>}
        <dt>version, engine, seed</dt><dd>{provenance.version}, {provenance.engine}, {provenance.seed}</dd>
        <dt>digest</dt><dd class="digest">{provenance.digest}</dd>
      </dl>
      {([["What the model leaves out", provenance.left_out], ["Defaults taken", provenance.defaults]] as const).map(([title, items]) => items.length > 0 && (
        <details><summary>{title} ({items.length})</summary><List items={[...items]} /></details>
      ))}
      {provenance.sources.length > 0 && <details>
        <summary>{provenance.sources.length} values and their sources</summary>
        <Table
          rows={provenance.sources}
          columns={[
            { head: "item", text: true, by: (row) => row.item },
            { head: "field", text: true, by: (row) => row.field },
            { head: "value", text: true, by: (row) => row.value },
            { head: "confidence", text: true, by: (row) => row.confidence },
            { head: "year", text: true, cell: (row) => String(row.year) },
            { head: "source", text: true, cell: (row) => <span class="source">{row.source}</span> },
          ]}
        />
      </details>}
      <details>
        <summary>The scenario, as resolved</summary>
        <pre>{JSON.stringify(result.scenario, null, 2)}</pre>
      </details>
    </Section>
  );
}
