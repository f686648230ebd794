/** Assertions of a scenario: pass or fail, and the values. */

import type { CheckAnswer } from "../answers.gen";
import { Section, Spelt, Table } from "../parts";

export function CheckView({ answer }: { answer: CheckAnswer }) {
  const failed = answer.checks.filter((row) => !row.holds);
  const several = new Set(answer.checks.map((row) => row.variant)).size > 1;
  const rows = [...failed, ...answer.checks.filter((row) => row.holds)];
  return (
      <Section title="Assertions" note="Those that fail come first, the others in the order of the scenario.">
        <Table
          rows={rows}
          mark={(row) => !row.holds}
          columns={[
            { head: "result", text: true, cell: (row) => (row.holds ? "pass" : <b class="fault">fail</b>) },
            ...(several ? [{ head: "variant", text: true, by: (row: CheckAnswer["checks"][number]) => row.variant }] : []),
            { head: "assertion and value", text: true, cell: (row) => <><code>{row.assertion}</code><br /><span class="source">{row.found}{row.remark && <>; <Spelt words={row.remark} /></>}</span></> },
          ]}
        />
      </Section>
  );
}
