/** Which part is to blame: the verdict, what speaks for it, where it is, and the test that would settle it. */

import type { DiagnosisAnswer, SuspectRow } from "../answers.gen";
import { capital, count, dollars, percent, times } from "../format";
import { Figure, List, Section, Spelt, Table } from "../parts";
import { marksOf, Topology } from "../views/topology";
import { useRow } from "./chosen";
import type { Hall } from "./hall";

/** Numbers that are listed; steps and ranks may be thousands. */
const LISTED = 12;

/** Confidence below which the part that is named first is more likely well than not. */
const EVEN = 0.5;

const listed = (numbers: readonly number[]) => numbers.slice(0, LISTED).join(", ") + (numbers.length > LISTED ? `, and ${numbers.length - LISTED} more` : "");

export function DiagnosisView({ answer, hall }: { answer: DiagnosisAnswer; hall: Hall }) {
  const [row, choose] = useRow();
  return (
    <>
      <Conclusion answer={answer} hall={hall} />
      {answer.picture && <Where answer={answer} row={row} />}
      <Suspects answer={answer} row={row} choose={choose} hall={hall} />
      <Next answer={answer} />
      <WhatIf values={answer.what_if} />
      <List title="What stands between this and a surer answer" items={answer.notes} />
    </>
  );
}

function headline({ verdict: [first], unknown }: DiagnosisAnswer): string {
  const open = "Which part is to blame, if any, is not known";
  if (!first) return unknown ? open : "Nothing is wrong";
  return unknown && first.confidence < EVEN ? `${open}; it may be ${first.part}` : `${capital(first.part)} ${first.part === "all ranks" ? "are" : "is"} to blame`;
}

function Conclusion({ answer, hall }: { answer: DiagnosisAnswer; hall: Hall }) {
  const [first, ...others] = answer.verdict;
  const link = first && hall(0);
  const slower = answer.what_if["S"];
  return (
    <section>
      <h2>{headline(answer)}</h2>
      {first && <p class="headline">{capital(first.evidence)}.</p>}
      {!first && answer.unknown && answer.notes[0] && <p class="headline">{capital(answer.notes[0])}.</p>}
      {!first && !answer.unknown && <p class="headline">No part stands out by more than others of its kind do by chance.</p>}
      {first && (
        <div class="figures">
          <Figure name="How sure" value={percent(first.confidence, 0)} under={first.kind} />
          <Figure name="It costs" value={first.usd_per_hour === null ? "—" : `${dollars(first.usd_per_hour)} an hour`} under={first.usd_per_hour === null ? "no price is known without the cluster" : `${dollars(first.usd_per_hour * 24 * 30)} in 30 days`} />
          {typeof slower === "number" && <Figure name="The job takes" value={times(slower)} under="of its time without it" />}
          {first.slow_steps.length > 0 && <Figure name="When" value={first.pattern} under={first.pattern === "constant" ? "in every step" : `in ${first.slow_steps.length} steps: ${listed(first.slow_steps)}`} />}
          {others.length > 0 && <Figure name="Also named" value={String(others.length)} under="below" />}
        </div>
      )}
      {first && answer.unknown && <p class="note">More may be wrong: see the notes.</p>}
      {answer.missing_ranks.length > 0 && <p class="note">No trace of {answer.missing_ranks.length === 1 ? "rank" : "ranks"} {listed(answer.missing_ranks)}.</p>}
      {link && <p class="tools"><a class="action" href={link}>Show it in the hall</a></p>}
    </section>
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
    <Section title="What speaks for it">
      <Table
        rows={answer.verdict.map((suspect, index) => ({ suspect, index }))}
        mark={({ index }) => index === row}
        columns={[
          { head: "part", text: true, cell: ({ suspect, index }) => name(suspect, index) },
          { head: "kind", text: true, cell: ({ suspect }) => suspect.kind },
          { head: "how sure", cell: ({ suspect }) => percent(suspect.confidence, 0) },
          { head: "when", text: true, cell: ({ suspect }) => suspect.pattern },
          { head: "$/h", cell: ({ suspect }) => (suspect.usd_per_hour === null ? "—" : dollars(suspect.usd_per_hour)) },
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
    <Section title="The test that would settle it" note="In this order: what disturbs nobody first.">
      <ol class="steps">
        {answer.steps.map((step) => (
          <li>
            <code>{step.run}</code>
            <dl>
              <dt>well if</dt><dd><Spelt words={step.expected} /></dd>
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
    <Section title="What if nobody were late">
      <Table
        rows={rows}
        columns={[
          { head: "figure", text: true, cell: ([key]) => key },
          { head: "value", text: true, cell: ([, value]) => <span class="source">{show(value)}</span> },
          { head: "what it is", text: true, cell: ([key]) => NAMES[key] ?? "", wide: true },
        ]}
      />
    </Section>
  );
}
