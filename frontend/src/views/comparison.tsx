import { causeColor, causeRank } from "../colors";
import { band, dollars, duration, percent, power } from "../format";
import { BandBar, Legend, Section, StackedBar, Table } from "../parts";
import { priceOf, type Stepped } from "../result";

/** Seconds a cause takes of the step, over all groups and phases, in stacking order. */
export function byCause(variant: Stepped): { cause: string; seconds: number }[] {
  const sums = new Map<string, number>();
  for (const row of variant.time) sums.set(row.cause, (sums.get(row.cause) ?? 0) + row.seconds);
  return [...sums].map(([cause, seconds]) => ({ cause, seconds })).sort((a, b) => causeRank(a.cause) - causeRank(b.cause));
}

export function Comparison({ variants, chosen, choose }: { variants: Stepped[]; chosen: number; choose: (index: number) => void }) {
  const longest = Math.max(...variants.map((variant) => variant.step.seconds));
  const dearest = Math.max(...variants.map((variant) => priceOf(variant).high));
  const priced = variants.some((variant) => variant.cpmt === null) ? "hour" : "million tokens";
  const causes = [...new Set(variants.flatMap((variant) => byCause(variant).map((part) => part.cause)))].sort((a, b) => causeRank(a) - causeRank(b));
  return (
    <Section title="Side by side" note="Each bar is one step; what is not computation, the GPUs wait. Click a row for its details.">
      <Legend items={causes.map((cause) => ({ name: cause, color: causeColor(cause) }))} />
      <div class="bars">
        {variants.map((variant, index) => (
          <button class="bar-row" aria-pressed={index === chosen} onClick={() => choose(index)}>
            <span class="name">{variant.name}</span>
            <StackedBar
              whole={longest}
              parts={byCause(variant).map((part) => ({
                name: part.cause,
                value: part.seconds,
                color: causeColor(part.cause),
                tip: `${variant.name}: ${part.cause} ${duration(part.seconds)} (${percent(part.seconds / variant.step.seconds)})`,
              }))}
            />
            <span class="value">{duration(variant.step.seconds)}</span>
          </button>
        ))}
      </div>
      <h3>Cost per {priced}: low, typical, high</h3>
      <div class="bars">
        {variants.map((variant, index) => (
          <button class="bar-row" aria-pressed={index === chosen} onClick={() => choose(index)}>
            <span class="name">{variant.name}</span>
            <BandBar band={priceOf(variant)} whole={dearest} />
            <span class="value">{dollars(priceOf(variant).typical)}</span>
          </button>
        ))}
      </div>
      <Table
        rows={variants}
        mark={(row) => row === variants[chosen]}
        columns={[
          { head: "variant", text: true, cell: (row) => row.name },
          { head: "GPU utilization", cell: (row) => percent(row.utilization.gpu) },
          { head: "MFU", cell: (row) => (row.utilization.mfu === null ? "—" : percent(row.utilization.mfu)) },
          { head: "step", cell: (row) => duration(row.step.seconds) },
          { head: "JCT", cell: (row) => (row.jct === null ? "—" : duration(row.jct.seconds)) },
          { head: "power", cell: (row) => power(row.power.total_w.typical) },
          { head: "capital", cell: (row) => dollars(row.capex.total_usd.typical) },
          { head: `${priced === "hour" ? "$/h" : "CPMT"} low – typical – high`, cell: (row) => band(priceOf(row), dollars) },
          { head: "bottleneck", text: true, cell: (row) => row.bottleneck.name },
        ]}
      />
    </Section>
  );
}
