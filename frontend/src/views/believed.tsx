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
const BY = { cpmt: "dollars per token", step_s: "step time", goodput_rps: "requests in time" };
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
          { head: "tie below", cell: (row) => percent(row.between) },
          { head: "read off", text: true, wide: true, cell: (row) => `${row.family}: ${row.rows} measurements of ${row.sources} sources, ${row.held_out === "nothing" ? "in sample" : `left out: ${row.held_out}`}` },
        ]}
      />
    </Section>
  );
}

/** What can be said of a comparison, in a line. */
function headOf(verdict: VerdictFigures): string {
  if (verdict.unlike.length > 0) return `Different work (${verdict.unlike.join(", ")}): none is the better one`;
  if (verdict.leading === null) return verdict.ranking.length > 0 ? `No job finishes; ${verdict.ranking[0]} loses least` : "Nothing here can be bought";
  return verdict.best === null ? `${verdict.leading} leads, but is tied with ${verdict.ties.join(", ")}` : `${verdict.best} is best`;
}

/** What is varied and not shown by the comparison. */
function unseen(verdict: VerdictFigures): string {
  const crossing = verdict.unexercised.filter((row) => row.crossing);
  const still = verdict.unexercised.filter((row) => !row.crossing).map((row) => row.key);
  const first = crossing[0];
  const from = first === undefined || first.from_servers === null ? "" : `; it would from ${count(first.from_servers)} servers`;
  const said = first === undefined ? [] : [`This job does not cross the spine${from}: what ${crossing.map((row) => row.key).join(", ")} would change there does not show.`];
  return [...said, ...(still.length > 0 ? [`${still.join(", ")} changes no figure of this job.`] : [])].join(" ");
}

/** Which variant is best, where that can be said; ties are called ties, and bounds never lead. */
export function Verdict({ verdict }: { verdict: VerdictFigures }) {
  const bound = verdict.bound !== null && verdict.above_bound !== null
    ? ` ${verdict.bound}, a bound with the same NICs, is ${percent(Math.max(verdict.above_bound, 0))} better than ${verdict.leading}.` : "";
  const note = `${unseen(verdict)} Ranked by ${BY[verdict.by]}. A difference smaller than the error of model and prices together is a tie; a job that a fault ends ranks behind those that finish.${bound}`;
  if (verdict.differences.length === 0) return <Section title={headOf(verdict)} note={`${unseen(verdict)}${bound}` || undefined}>{null}</Section>;
  return (
    <Section title={headOf(verdict)} note={note}>
      <Table
        rows={[...verdict.differences]}
        columns={[
          { head: "variant", text: true, cell: (row) => row.variant },
          { head: `against ${verdict.ranking[0]}`, cell: (row) => `${row.difference < 0 ? "" : "+"}${percent(row.difference)}` },
          { head: "tie below", cell: (row) => percent(row.band) },
          { head: "of the model", cell: (row) => percent(Math.expm1(row.model_band)) },
          { head: "of prices", cell: (row) => percent(Math.expm1(row.price_band)) },
          { head: "error that cancels", text: true, cell: (row) => row.shared },
          { head: "verdict", text: true, cell: (row) => (row.tied ? "tied" : "different") },
        ]}
      />
    </Section>
  );
}
