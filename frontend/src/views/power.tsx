import { energy, percent, power } from "../format";
import { Section, Table } from "../parts";
import type { Stepped } from "../result";

export function Power({ variant }: { variant: Stepped }) {
  const { components, total_w, energy_per_step_j, data_movement_share } = variant.power;
  return (
    <Section
      title="Power"
      note={<>{power(total_w.typical)} while running, {energy(energy_per_step_j)} a step. Data movement tax (NICs, switches, optics): {percent(data_movement_share)}.</>}
    >
      <Table
        rows={components}
        columns={[
          { head: "component", text: true, by: (row) => row.name },
          { head: "low", by: (row) => row.low_w, show: power },
          { head: "typical", by: (row) => row.typical_w, show: power },
          { head: "high", by: (row) => row.high_w, show: power },
          { head: "share", cell: (row) => percent(row.typical_w / Math.max(total_w.typical, 1e-9)) },
        ]}
      />
    </Section>
  );
}
