import { band, count, dollars, duration, percent, power } from "../format";
import { Section, Table } from "../parts";
import type { ErrorRow, Verdict } from "../result.gen";

const FIGURES: { [key: string]: { name: string; show: (value: number) => string } } = {
  step_s: { name: "step time", show: duration },
  network_tax: { name: "network tax", show: percent },
  ttft_s: { name: "TTFT p50", show: duration },
  tpot_s: { name: "TPOT p50", show: duration },
  cpmt: { name: "$ per million tokens", show: dollars },
  tokens_per_s_per_gpu: { name: "tokens/s per GPU", show: count },
  power_w: { name: "power", show: power },
};
const unknown = { name: "", show: count };

const signed = (share: number): string => `${share < 0 ? "" : "+"}${percent(share, 0)}`;

/** How far each predicted figure may be from what is measured, and what prices add to it. */
export function Believed({ rows }: { rows: readonly ErrorRow[] }) {
  return (
    <Section title="How far to believe it" note="The model error is an 80 % interval: eight of ten measurements that no constant was fitted to lie within it.">
      <Table
        rows={[...rows]}
        columns={[
          { head: "figure", text: true, cell: (row) => (FIGURES[row.figure] ?? unknown).name || row.figure },
          { head: "predicted", cell: (row) => (FIGURES[row.figure] ?? unknown).show(row.typical) },
          { head: "model error", cell: (row) => `${(FIGURES[row.figure] ?? unknown).show(row.low)} – ${(FIGURES[row.figure] ?? unknown).show(row.high)} (${signed(row.low / row.typical - 1)} to ${signed(row.high / row.typical - 1)})` },
          { head: "price error", cell: (row) => (row.prices ? band(row.prices, (FIGURES[row.figure] ?? unknown).show) : "—") },
          { head: "tie threshold", by: (row) => row.between, show: percent },
          { head: "from", text: true, wide: true, cell: (row) => <span class="source">{`${row.family}: ${row.rows} measurements of ${row.sources} sources, ${row.held_out === "nothing" ? "in sample" : `left out: ${row.held_out}`}`}</span> },
        ]}
      />
    </Section>
  );
}

/** How far variants differ, against the error of model and prices. */
export function Differences({ verdict }: { verdict: Verdict }) {
  if (verdict.differences.length === 0) return null;
  return (
    <Section title="How far the variants differ" note="Variants are equal within error where they differ by less than their tie threshold: the root of the sum of the squares of three errors. These are of the model, as far as it does not cancel, of prices, and of draws.">
      <Table
        rows={[...verdict.differences]}
        columns={[
          { head: "variant", text: true, by: (row) => row.variant },
          { head: `against ${verdict.ranking[0]}`, cell: (row) => `${row.difference < 0 ? "" : "+"}${percent(row.difference)}` },
          { head: "tie threshold", by: (row) => row.band, show: percent },
          { head: "model error", cell: (row) => percent(Math.expm1(row.model_band)) },
          { head: "price error", cell: (row) => percent(Math.expm1(row.price_band)) },
          { head: "draws", cell: (row) => percent(Math.expm1(row.draw_band ?? 0)) },
          { head: "error that cancels", text: true, by: (row) => row.shared },
          { head: "verdict", text: true, cell: (row) => (row.tied ? "equal within error" : "different") },
        ]}
      />
    </Section>
  );
}
