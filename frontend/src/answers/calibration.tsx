/** Constants that fit measurements: each with its deviation, and what they predict row by row. */

import type { CalibrationAnswer, RowFit } from "../answers.gen";
import { count, percent } from "../format";
import { Section, Table } from "../parts";

const error = (value: number | null, row: RowFit): number | null => (value === null ? null : value / row.measured - 1);
const signed = (share: number): string => `${share > 0 ? "+" : ""}${percent(share)}`;

export function CalibrationView({ answer }: { answer: CalibrationAnswer }) {
  return (
    <>
      <Section title="Constants" note="Deviation is one standard deviation. The last column is the share of the uncertainty that your rows removed.">
        <Table
          rows={[...answer.constants]}
          columns={[
            { head: "constant", text: true, by: (row) => row.name },
            { head: "of", text: true, by: (row) => row.of },
            { head: "shipped", by: (row) => row.before, show: count },
            { head: "yours", by: (row) => row.value, show: count },
            { head: "deviation", by: (row) => (row.high - row.low) / (2 * row.value), show: percent, wide: true },
            { head: "from your rows", by: (row) => row.settled, show: percent, wide: true },
          ]}
        />
      </Section>
      <Section title="Measurements" note={`Measured values in ${answer.unit}; errors of the predictions against them.`}>
        <Table
          rows={[...answer.rows]}
          columns={[
            { head: "row", text: true, by: (row) => row.name },
            { head: "measured", by: (row) => row.measured, show: count },
            { head: "shipped", by: (row) => error(row.before, row), show: signed },
            { head: "yours", by: (row) => error(row.after, row), show: signed },
            { head: "without this row", by: (row) => error(row.left_out, row), show: signed },
          ]}
        />
      </Section>
    </>
  );
}
