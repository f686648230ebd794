import { band, dollars, duration, percent, power } from "../format";
import { BandBar, Legend, Section, StackedBar, Table } from "../parts";
import { priceOf, type Stepped } from "../result";
import { stepParts, taxWords } from "../taxes";

const isEnded = (variant: Stepped): boolean => "outcome" in variant && variant.outcome !== "finished";

export function Comparison({ variants, chosen, choose }: { variants: Stepped[]; chosen: number; choose: (index: number) => void }) {
  const longest = Math.max(...variants.map((variant) => variant.step.seconds));
  const dearest = Math.max(...variants.map((variant) => priceOf(variant).high));
  const priced = variants.some((variant) => variant.cpmt === null) ? "hour" : "million tokens";
  const parts = new Map(variants.flatMap(stepParts).map(({ name, color }) => [name, color]));
  return (
    <Section title="Side by side" note="Each bar is one step. A network's part is what the step would lose if that network had no limit: exposed communication, and kernels slowed by communication that overlaps them. Click a row for its details.">
      <Legend items={[...parts].map(([name, color]) => ({ name, color }))} />
      <div class="bars">
        {variants.map((variant, index) => (
          <button class="bar-row" aria-pressed={index === chosen} onClick={() => choose(index)}>
            <span class="name">{variant.name}</span>
            <StackedBar
              whole={longest}
              parts={stepParts(variant).map(({ name, share, color }) => ({
                name,
                color,
                value: share * variant.step.seconds,
                tip: `${variant.name}: ${name} ${duration(share * variant.step.seconds)} (${percent(share)})`,
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
          ...(variants.some(isEnded) ? [{ head: "job", text: true, cell: (row: Stepped) => ("outcome" in row ? row.outcome : "—") }] : []),
          { head: "network tax", cell: (row) => taxWords(row.tax) },
          { head: "scale-up tax", cell: (row) => taxWords(row.tax.scale_up) },
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
