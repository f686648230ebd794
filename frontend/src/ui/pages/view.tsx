/** A view of a run without a page of its own: its tables. */

import { Section, Table } from "../../parts";
import { api } from "../api";
import { useLoaded } from "../loaded";

export function ViewPage({ run, view }: { run: string; view: string }) {
  const [tables] = useLoaded(() => api.tables(run, view), [run, view]);
  if (tables.error !== undefined) return <p class="failure">{tables.error}. <a href={`#/run/${encodeURIComponent(run)}`}>To the run</a></p>;
  if (tables.value === undefined) return <p class="muted" role="status">reading {run}</p>;
  return (
    <>
      <h1>{run}</h1>
      {tables.value.map(({ title, headings, rows, right }) => (
        <Section title={title || (headings[0] ?? "")}>
          <Table rows={rows} columns={headings.map((head, at) => ({ head, text: !right.includes(at), cell: (row: string[]) => row[at] ?? "" }))} />
        </Section>
      ))}
    </>
  );
}
