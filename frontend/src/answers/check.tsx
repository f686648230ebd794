/** What a scenario asserts: which of it holds, and what was found. */

import type { CheckAnswer } from "../answers.gen";
import { Section, Spelt, Table } from "../parts";

export function CheckView({ answer }: { answer: CheckAnswer }) {
  const failed = answer.checks.filter((row) => !row.holds);
  const several = new Set(answer.checks.map((row) => row.variant)).size > 1;
  const rows = [...failed, ...answer.checks.filter((row) => row.holds)];
  return (
    <>
      <section>
        <h2>{failed.length === 0 ? `All ${answer.checks.length} assertions hold` : `${failed.length} of ${answer.checks.length} assertions do not hold`}</h2>
        {answer.stopped && <p class="headline">The check was stopped before its end: other assertions are not judged.</p>}
        {failed[0] && <p class="headline">{failed[0].assertion}: found {failed[0].found}{failed[0].remark ? ` (${failed[0].remark})` : ""}.</p>}
      </section>
      <Section title="What is asserted" note="What does not hold stands first; the order is otherwise that of the scenario.">
        <Table
          rows={rows}
          mark={(row) => !row.holds}
          columns={[
            { head: "holds", text: true, cell: (row) => (row.holds ? "yes" : <b class="fault">no</b>) },
            ...(several ? [{ head: "variant", text: true, cell: (row: CheckAnswer["checks"][number]) => row.variant }] : []),
            { head: "assertion, and what was found", text: true, cell: (row) => <><code>{row.assertion}</code><br /><span class="source">{row.found}{row.remark && <>; <Spelt words={row.remark} /></>}</span></> },
          ]}
        />
      </Section>
    </>
  );
}
