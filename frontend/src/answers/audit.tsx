/** What is wrong with a network as found: ranked by dollars, each shown on the network, and what repairs bring. */

import { useState } from "preact/hooks";
import type { AuditAnswer, FindingRow } from "../answers.gen";
import { capital, dollars, percent, whole, wholeDollars } from "../format";
import { ButtonRow, List, Section, Table } from "../parts";
import { choose as keep, chosen as kept } from "../place";
import { linear } from "../scales";
import { Plot } from "../plot";
import { marksOf, Topology } from "../views/topology";
import type { Hall } from "./hall";
import { useRow } from "./chosen";

const MOST = 40;

export function AuditView({ answer, hall }: { answer: AuditAnswer; hall: Hall }) {
  const [row, choose] = useRow();
  return (
    <>
      {answer.picture && answer.findings.length > 0 && <Where answer={answer} row={row} />}
      <Findings answer={answer} row={row} choose={choose} hall={hall} />
      <Repaired answer={answer} />
      <Design answer={answer} />
      {answer.problems.length > 0 && <Section title="Input that could not be read" folded><List items={answer.problems} /></Section>}
    </>
  );
}

function Where({ answer, row }: { answer: AuditAnswer; row: number | undefined }) {
  if (answer.picture === null) return null;
  const one = row === undefined ? undefined : answer.findings[row]?.place;
  return (
    <Section title="Where" note={row === undefined ? "Yellow: something was found there. Choose a finding below, and its cable lights up." : `Red: finding ${row + 1}, ${answer.findings[row]?.a}.`}>
      <Topology picture={answer.picture} label="Findings on the network" found={marksOf(answer.findings.map((finding) => finding.place))} marks={one && marksOf([one])} />
    </Section>
  );
}

interface Listed {
  answer: AuditAnswer;
  row: number | undefined;
  choose: (row: number) => void;
  hall: Hall;
}

function Findings({ answer, row, choose, hall }: Listed) {
  const kinds = ["all", ...new Set(answer.findings.map((finding) => finding.kind))];
  const [kind, setKind] = useState(Math.max(0, kinds.indexOf(kept("kind") ?? "all")));
  const [all, showAll] = useState(false);
  if (answer.findings.length === 0) return null;
  const rows = answer.findings.map((finding, index) => ({ finding, index })).filter(({ finding }) => kind === 0 || finding.kind === kinds[kind]);
  const shown = all ? rows : rows.slice(0, MOST);
  return (
    <Section title="Findings by cost" note="Dollars are what one costs by itself; together they may cost more or less.">
      {kinds.length > 2 && <ButtonRow label="Kind" names={kinds} chosen={kind} choose={(index) => { setKind(index); keep("kind", index === 0 ? null : (kinds[index] ?? null)); }} />}
      <Table
        rows={shown}
        mark={({ index }) => index === row}
        columns={[
          { head: "no.", cell: ({ index }) => index + 1, wide: true, by: ({ index }) => index },
          { head: "where", text: true, cell: ({ finding, index }) => <button class="line" aria-pressed={index === row} onClick={() => choose(index)}>{finding.a}{hasEnd(finding) && <><br />{finding.b}</>}</button> },
          { head: "kind", text: true, cell: ({ finding }) => <span title={finding.about}>{finding.kind}</span>, wide: true, by: ({ finding }) => finding.kind },
          { head: "$/month", cell: ({ finding }) => (finding.usd_per_month === null ? "—" : wholeDollars(finding.usd_per_month)), by: ({ finding }) => finding.usd_per_month ?? -1 },
          { head: "of the time", cell: ({ finding }) => (finding.loss === null ? "—" : percent(finding.loss, 2)), wide: true },
          { head: "what to do", text: true, cell: ({ finding }) => <span class="source">{finding.detail || finding.about}{finding.unpriced ? `; no price: ${finding.unpriced}` : finding.loss_band ? `; ${percent(finding.loss_band[0], 2)} to ${percent(finding.loss_band[1], 2)} of the time` : finding.priced_by ? `; ${finding.priced_by}` : ""}</span> },
          ...(hall(0) === undefined ? [] : [{ head: "hall", text: true, cell: ({ index }: { finding: FindingRow; index: number }) => <a href={hall(index) ?? ""}>show</a> }]),
        ]}
      />
      {rows.length > shown.length && <p class="more"><button onClick={() => showAll(true)}>Show all {whole(rows.length)}</button></p>}
    </Section>
  );
}

const hasEnd = (finding: FindingRow): boolean => finding.b !== "?" && finding.b !== "";
const ends = (finding: FindingRow): string => (hasEnd(finding) ? `${finding.a} – ${finding.b}` : finding.a);

/** What is left of the loss after each repair. */
function Repaired({ answer }: { answer: AuditAnswer }) {
  const left = answer.usd_after_repair;
  if (left.length === 0) return null;
  const points: [number, number][] = [[0, answer.usd_per_month], ...left.map((usd, index): [number, number] => [index + 1, usd])];
  const half = points.find(([, usd]) => usd <= answer.usd_per_month / 2);
  return (
    <Section
      title="Savings by repair"
      note={answer.usd_per_month > 0 && half ? `In this order the first ${half[0] === 1 ? "repair saves" : `${half[0]} repairs save`} ${dollars(answer.usd_per_month - half[1])} of ${dollars(answer.usd_per_month)} a month.` : undefined}
    >
      <Plot
        label="Dollars a month that are left after each repair"
        series={[{ name: "left", color: "var(--accent)", points }]}
        x={linear(0, left.length, Math.min(left.length, 10))}
        y={linear(0, Math.max(answer.usd_per_month, ...left) * 1.05, 5)}
        showX={(value) => whole(value)}
        showY={dollars}
        titleX="repairs done"
        titleY="dollars a month that remain"
        steps
        dots
        height={240}
      />
      <Table
        rows={left.map((usd, index) => ({ usd, index, finding: answer.findings[index] }))}
        columns={[
          { head: "no.", cell: (row) => row.index + 1 },
          { head: "repair", text: true, cell: (row) => (row.finding ? ends(row.finding) : "") },
          { head: "saves", cell: (row) => wholeDollars((row.index === 0 ? answer.usd_per_month : (left[row.index - 1] ?? 0)) - row.usd) },
          { head: "remains a month", by: (row) => row.usd, show: wholeDollars },
        ]}
      />
    </Section>
  );
}

interface Block {
  lower: string;
  switches: [number, number];
  cables: number;
  found: number;
  worst_shift_load: [number, number] | null;
}

function Design({ answer }: { answer: AuditAnswer }) {
  const blocks = (answer.design["blocks"] ?? []) as Block[];
  const doubts = (answer.design["doubts"] ?? []) as string[];
  const between = (pair: [number, number] | null): string => (pair === null ? "—" : pair[0] === pair[1] ? whole(pair[0]) : `${whole(pair[0])} to ${whole(pair[1])}`);
  return (
    <Section title="Reference design" folded note={capital(String(answer.design["assumptions"] ?? ""))}>
      <Table
        rows={blocks}
        columns={[
          { head: "tier", text: true, by: (row) => row.lower },
          { head: "switches", cell: (row) => `${whole(row.switches[0])} under ${whole(row.switches[1])}` },
          { head: "cables found", cell: (row) => `${whole(row.found)} of ${whole(row.cables)}` },
          { head: "worst shift permutation", cell: (row) => between(row.worst_shift_load) },
        ]}
      />
      <List title="Not certain" items={doubts} />
    </Section>
  );
}
