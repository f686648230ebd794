import { band, count, dollars, duration, percent, power } from "../format";
import { Section, Table } from "../parts";
import type { ErrorRow, Verdict as VerdictFigures } from "../result.gen";

const FIGURES: { [key: string]: { name: string; show: (value: number) => string } } = {
  step_s: { name: "step time", show: duration },
  ttft_s: { name: "time to the first token, p50", show: duration },
  tpot_s: { name: "time per token, p50", show: duration },
  cpmt: { name: "$ per million tokens", show: dollars },
  tokens_per_s_per_gpu: { name: "tokens/s per GPU", show: count },
  power_w: { name: "power", show: power },
};
const BY = { cpmt: "dollars a token", step_s: "step time", goodput_rps: "requests in time" };
const unknown = { name: "", show: count };

const signed = (share: number): string => `${share < 0 ? "" : "+"}${percent(share, 0)}`;

/** How far each predicted figure may be from what is measured, beside what prices make of it. */
export function Believed({ rows }: { rows: readonly ErrorRow[] }) {
  return (
    <Section title="How far to believe it" note="Eight of ten measurements that no constant was fitted to lay inside the model's band; prices are as in the cost section.">
      <Table
        rows={[...rows]}
        columns={[
          { head: "figure", text: true, cell: (row) => (FIGURES[row.figure] ?? unknown).name || row.figure },
          { head: "predicted", cell: (row) => (FIGURES[row.figure] ?? unknown).show(row.typical) },
          { head: "band of the model", cell: (row) => `${(FIGURES[row.figure] ?? unknown).show(row.low)} – ${(FIGURES[row.figure] ?? unknown).show(row.high)} (${signed(row.low / row.typical - 1)} to ${signed(row.high / row.typical - 1)})` },
          { head: "band of prices", cell: (row) => (row.prices ? band(row.prices, (FIGURES[row.figure] ?? unknown).show) : "—") },
          { head: "a tie up to", cell: (row) => percent(row.between) },
          { head: "read off", text: true, wide: true, cell: (row) => `${row.family}: ${row.rows} measurements of ${row.sources} sources, ${row.held_out === "nothing" ? "in sample" : `left out: ${row.held_out}`}` },
        ]}
      />
    </Section>
  );
}

/** Which variant is best, where that can be said; ties are called ties. */
export function Verdict({ verdict }: { verdict: VerdictFigures }) {
  const head = verdict.best === null ? `${verdict.leading} leads, but is tied with ${verdict.ties.join(", ")}` : `${verdict.best} is best`;
  return (
    <Section title={head} note={`By ${BY[verdict.by]}. A difference inside the bands of model and prices together is a tie.`}>
      <Table
        rows={[...verdict.differences]}
        columns={[
          { head: "variant", text: true, cell: (row) => row.variant },
          { head: `against ${verdict.leading}`, cell: (row) => `${row.difference < 0 ? "" : "+"}${percent(row.difference)}` },
          { head: "a tie up to", cell: (row) => percent(row.band) },
          { head: "of the model", cell: (row) => percent(Math.expm1(row.model_band)) },
          { head: "of prices", cell: (row) => percent(Math.expm1(row.price_band)) },
          { head: "shared, so that its error cancels", text: true, cell: (row) => row.shared },
          { head: "so", text: true, cell: (row) => (row.tied ? "tied" : "apart") },
        ]}
      />
    </Section>
  );
}
