/** Which part is to blame: the verdict, what speaks for it, where it is, and the test that would settle it. */

import type { DiagnosisAnswer, SuspectRow } from "../answers.gen";
import { count, dollars, percent } from "../format";
import { Section, Spelt, Table } from "../parts";
import { marksOf, Topology } from "../views/topology";
import { useRow } from "./chosen";
import type { Hall } from "./hall";

export function DiagnosisView({ answer, hall }: { answer: DiagnosisAnswer; hall: Hall }) {
  const [row, choose] = useRow();
  return (
    <>
      {answer.picture && <Where answer={answer} row={row} />}
      <Suspects answer={answer} row={row} choose={choose} hall={hall} />
      <Next answer={answer} />
      <WhatIf values={answer.what_if} />
    </>
  );
}

function Where({ answer, row }: { answer: DiagnosisAnswer; row: number | undefined }) {
  if (answer.picture === null) return null;
  const places = answer.verdict.flatMap((suspect) => (suspect.place ? [suspect.place] : []));
  const one = answer.verdict[row ?? 0]?.place;
  return (
    <Section title="Where" note={row === undefined ? "Red: the part that is named first." : `Red: ${answer.verdict[row]?.part}.`}>
      <Topology picture={answer.picture} label="The part on the network" found={marksOf(places)} marks={one && marksOf([one])} />
    </Section>
  );
}

function Suspects({ answer, row, choose, hall }: { answer: DiagnosisAnswer; row: number | undefined; choose: (row: number) => void; hall: Hall }) {
  if (answer.verdict.length === 0) return null;
  const name = (suspect: SuspectRow, index: number) => <button class="line" aria-pressed={index === row} onClick={() => choose(index)}>{suspect.part}</button>;
  return (
    <Section title="Evidence">
      <Table
        rows={answer.verdict.map((suspect, index) => ({ suspect, index }))}
        mark={({ index }) => index === row}
        columns={[
          { head: "part", text: true, cell: ({ suspect, index }) => name(suspect, index) },
          { head: "kind", text: true, by: ({ suspect }) => suspect.kind },
          { head: "how sure", cell: ({ suspect }) => percent(suspect.confidence, 0) },
          { head: "when", text: true, by: ({ suspect }) => suspect.pattern },
          { head: "$/h", by: ({ suspect }) => suspect.usd_per_hour, show: dollars },
          { head: "evidence", text: true, cell: ({ suspect }) => <span class="source">{suspect.evidence}</span> },
          ...(hall(0) === undefined ? [] : [{ head: "hall", text: true, cell: ({ index }: { suspect: SuspectRow; index: number }) => <a href={hall(index) ?? ""}>show</a> }]),
        ]}
      />
    </Section>
  );
}

function Next({ answer }: { answer: DiagnosisAnswer }) {
  if (answer.steps.length === 0) return null;
  return (
    <Section title="Next tests" note="In this order: tests that disturb nobody come first.">
      <ol class="steps">
        {answer.steps.map((step) => (
          <li>
            <code>{step.run}</code>
            <dl>
              <dt>healthy if</dt><dd><Spelt words={step.expected} /></dd>
              <dt>else</dt><dd><Spelt words={step.otherwise} /></dd>
            </dl>
          </li>
        ))}
      </ol>
    </Section>
  );
}

const NAMES: Record<string, string> = {
  S: "time of the job over its time without stragglers",
  S_communication: "its part of communications that took longer than expected",
  S_computation: "its part of computations that took longer than those of others",
  S_t: "the same by kind of operation",
  S_dp: "by data-parallel group",
  S_stage: "by pipeline stage",
  S_w: "by worker",
  M_W: "share of the slowdown that the slowest 3 % of workers explain",
  M_S: "share that the last stage explains",
  step_s: "step, s",
  ideal_s: "step without stragglers, s",
};

/** Entries of a table that are listed; workers may be thousands. */
const MOST = 12;

function WhatIf({ values }: { values: Record<string, unknown> }) {
  const rows = Object.entries(values);
  if (rows.length === 0) return null;
  const show = (value: unknown): string => {
    if (typeof value === "number") return count(value);
    if (value === null || typeof value !== "object") return String(value ?? "—");
    const parts = Object.entries(value as Record<string, unknown>).sort((a, b) => Number(b[1]) - Number(a[1]));
    return parts.slice(0, MOST).map(([key, one]) => `${key}: ${typeof one === "number" ? count(one) : String(one)}`).join(", ") + (parts.length > MOST ? `, and ${parts.length - MOST} more` : "");
  };
  return (
    <Section title="The job without stragglers" folded>
      <Table
        rows={rows}
        columns={[
          { head: "figure", text: true, by: ([key]) => key },
          { head: "value", text: true, cell: ([, value]) => <span class="source">{show(value)}</span> },
          { head: "what it is", text: true, cell: ([key]) => NAMES[key] ?? "", wide: true },
        ]}
      />
    </Section>
  );
}
