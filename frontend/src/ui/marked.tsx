/** Findings of an audit, or parts that a diagnosis names, as the hall shows them. */

import { address } from "../place";
import { Section, Table } from "../parts";
import { wholeDollars } from "../format";
import type { Mark } from "./api.gen";

interface MarkedProps {
  answer: string;
  rows: Mark[];
  row: number | undefined;
  choose: (row: number) => void;
}

export function Marked({ answer, rows, row, choose }: MarkedProps) {
  const priced = rows.some((one) => one.usd_per_month !== null);
  return (
    <Section title="Findings by cost" note={<>Choose one, and its cable lights up. <a href={address(`/answer/${encodeURIComponent(answer)}`, row === undefined ? {} : { finding: String(row + 1) })}>What they are and what repairs bring</a></>}>
      <Table
        rows={rows.map((mark, index) => ({ mark, index }))}
        mark={({ index }) => index === row}
        columns={[
          { head: "no.", cell: ({ index }) => index + 1 },
          { head: "where", text: true, cell: ({ mark, index }) => <button class="line" aria-pressed={index === row} onClick={() => choose(index)}>{mark.name}</button> },
          { head: "kind", text: true, by: ({ mark }) => mark.kind },
          ...(priced ? [{ head: "$/month", by: ({ mark }: { mark: Mark }) => mark.usd_per_month, show: wholeDollars }] : []),
          { head: "cables", cell: ({ mark }) => mark.cables.length, wide: true },
        ]}
      />
    </Section>
  );
}
