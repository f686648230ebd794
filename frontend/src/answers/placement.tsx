/** Which nodes jobs get, and what other rules would have made of it. */

import type { PlacementAnswer, PolicyRow } from "../answers.gen";
import { dollars, duration, percent, whole } from "../format";
import { Figure, Section, Spelt, Table } from "../parts";

/** Rows and names of nodes that are listed. */
const MOST = 500;
const NAMES = 12;

export function PlacementView({ answer }: { answer: PlacementAnswer }) {
  const waiting = answer.jobs.filter((row) => row.nodes.length === 0);
  const placed = answer.jobs.length - waiting.length;
  return (
    <>
      <section>
        <h2>{answer.jobs.length === 1 ? (placed === 1 ? `The job gets its nodes by ${answer.rule}` : "The job waits") : `${placed} of ${answer.jobs.length} jobs are placed by ${answer.rule}`}</h2>
        <p class="headline">{conclusion(answer)}</p>
        <div class="figures">
          <Figure name="Placed" value={whole(placed)} under={waiting.length > 0 ? `${whole(waiting.length)} wait` : "none waits"} />
          {answer.total !== null && answer.idle !== null && <Figure name="Nodes left" value={whole(answer.idle)} under={`of ${whole(answer.total)}`} />}
        </div>
      </section>
      {answer.policies.length > 0 && <Policies answer={answer} />}
      <Section title="Job by job">
        <Table
          rows={[...answer.jobs].slice(0, MOST)}
          mark={(row) => row.nodes.length === 0}
          columns={[
            { head: "job", text: true, cell: (row) => row.job },
            { head: "state", text: true, cell: (row) => row.state },
            { head: "nodes wanted", cell: (row) => (row.wanted === null ? "—" : whole(row.wanted)) },
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

function fastest(answer: PlacementAnswer): PolicyRow | undefined {
  return [...answer.policies].filter((row) => !row.bound && row.step_s !== null).sort((a, b) => (a.step_s ?? 0) - (b.step_s ?? 0))[0];
}

function conclusion(answer: PlacementAnswer): string {
  const [first, best] = [answer.policies[0], fastest(answer)];
  if (!first) return "Jobs are placed in the order of the table; what waits has no nodes that its wishes allow.";
  if (first.step_s === null) return best?.step_s ? `By ${best.policy} it would run, with a step of ${duration(best.step_s)}.` : "No rule finds nodes for it.";
  if (!best?.step_s || best.step_s > first.step_s * 0.999) return `Its step takes ${duration(first.step_s)}, and no other rule makes it shorter.`;
  return `Its step takes ${duration(first.step_s)}; by ${best.policy} it would take ${duration(best.step_s)}, ${percent(1 - best.step_s / first.step_s)} less.`;
}

function Policies({ answer }: { answer: PlacementAnswer }) {
  const rows = [...answer.policies].sort((a, b) => Number(a.bound) - Number(b.bound) || (a.step_s ?? Infinity) - (b.step_s ?? Infinity));
  const first = answer.policies[0]?.step_s ?? null;
  const at = (row: PolicyRow, level: number) => (row.groups[level] === undefined ? "—" : `${whole(row.groups[level])} (${row.least[level] === row.groups[level] ? "as few as can be" : `${whole(row.least[level] ?? 0)} would do`})`);
  return (
    <Section title="By every rule" note="The step is the flow engine's, with the jobs that run already on the machine; rules that only show how bad it can get stand last.">
      <Table
        rows={rows}
        mark={(row) => row.policy === answer.rule}
        columns={[
          { head: "rule", text: true, cell: (row) => row.policy },
          ...answer.levels.map((level, index) => ({ head: `${level}s`, wide: true, cell: (row: PolicyRow) => at(row, index) })),
          { head: "step", cell: (row) => (row.step_s === null ? "waits" : duration(row.step_s)) },
          { head: "against it", cell: (row) => (row.step_s === null || first === null ? "—" : `${row.step_s >= first ? "+" : ""}${percent(row.step_s / first - 1)}`) },
          { head: "1,000 steps", cell: (row) => (row.usd_per_1000_steps === null ? "—" : dollars(row.usd_per_1000_steps)) },
        ]}
      />
    </Section>
  );
}
