/** Which nodes jobs get, and what other rules would have made of it. */

import type { PlacementAnswer, PolicyRow } from "../answers.gen";
import { dollars, duration, percent, whole } from "../format";
import { Section, Spelt, Table } from "../parts";

/** Rows and names of nodes that are listed. */
const MOST = 500;
const NAMES = 12;

export function PlacementView({ answer }: { answer: PlacementAnswer }) {
  return (
    <>
      {answer.policies.length > 0 && <Policies answer={answer} />}
      <Section title="Jobs">
        <Table
          rows={[...answer.jobs].slice(0, MOST)}
          mark={(row) => row.nodes.length === 0}
          columns={[
            { head: "job", text: true, by: (row) => row.job },
            { head: "state", text: true, by: (row) => row.state },
            { head: "nodes wanted", by: (row) => row.wanted, show: whole },
            ...answer.levels.map((level, at) => ({ head: `${level}s`, cell: (row: PlacementAnswer["jobs"][number]) => (row.groups[at] === undefined ? "—" : whole(row.groups[at])) })),
            { head: "where", text: true, cell: (row) => <span title={row.nodes.join(", ")}>{some(row.nodes)}{row.remarks.map((words) => <><br /><span class="source"><Spelt words={words} /></span></>)}</span> },
          ]}
        />
        {answer.jobs.length > MOST && <p class="muted">and {whole(answer.jobs.length - MOST)} more, in the JSON file</p>}
      </Section>
    </>
  );
}

const some = (names: readonly string[]): string => (names.length <= NAMES ? names.join(", ") : `${names.slice(0, NAMES).join(", ")} and ${whole(names.length - NAMES)} more`);

function Policies({ answer }: { answer: PlacementAnswer }) {
  const rows = [...answer.policies].sort((a, b) => Number(a.bound) - Number(b.bound) || (a.step_s ?? Infinity) - (b.step_s ?? Infinity));
  const first = answer.policies[0]?.step_s ?? null;
  const at = (row: PolicyRow, level: number) => (row.groups[level] === undefined ? "—" : `${whole(row.groups[level])} (${row.least[level] === row.groups[level] ? "as few as can be" : `${whole(row.least[level] ?? 0)} would do`})`);
  return (
    <Section title="All policies" note="The flow engine computes the step, with the jobs that already run on the cluster. Policies that only show the worst case come last.">
      <Table
        rows={rows}
        mark={(row) => row.policy === answer.rule}
        columns={[
          { head: "policy", text: true, by: (row) => row.policy },
          ...answer.levels.map((level, index) => ({ head: `${level}s`, wide: true, cell: (row: PolicyRow) => at(row, index) })),
          { head: "step", cell: (row) => (row.step_s === null ? "waits" : duration(row.step_s)) },
          { head: "against it", cell: (row) => (row.step_s === null || first === null ? "—" : `${row.step_s >= first ? "+" : ""}${percent(row.step_s / first - 1)}`) },
          { head: "1,000 steps", by: (row) => row.usd_per_1000_steps, show: dollars },
        ]}
      />
    </Section>
  );
}
