import { band, dollars, duration, percent } from "../format";
import { BandBar, Section, Table } from "../parts";
import { priceOf, type Stepped } from "../result";

const isEnded = (variant: Stepped): boolean => "outcome" in variant && variant.outcome !== "finished";

export function Comparison({ variants, chosen, choose }: { variants: Stepped[]; chosen: number; choose: (index: number) => void }) {
  const highest = Math.max(...variants.map((variant) => priceOf(variant).high));
  const priced = variants.some((variant) => variant.cpmt === null) ? "hour" : "million tokens";
  return (
    <Section title="Side by side" note="A network's tax is what the step loses because that network has limits: exposed communication, and kernels slowed by communication that overlaps them.">
      <h3>Cost per {priced}: low, typical, high</h3>
      <div class="bars">
        {variants.map((variant, index) => (
          <button class="bar-row" aria-pressed={index === chosen} onClick={() => choose(index)}>
            <span class="name">{variant.name}</span>
            <BandBar band={priceOf(variant)} whole={highest} />
            <span class="value">{dollars(priceOf(variant).typical)}</span>
          </button>
        ))}
      </div>
      <Table
        rows={variants}
        mark={(row) => row === variants[chosen]}
        columns={[
          { head: "variant", text: true, by: (row) => row.name },
          ...(variants.some(isEnded) ? [{ head: "job", text: true, cell: (row: Stepped) => ("outcome" in row ? row.outcome : "—") }] : []),
          { head: "network tax", by: (row) => row.tax.tokens_lost, show: percent },
          { head: "scale-up tax", by: (row) => row.tax.scale_up.tokens_lost, show: percent },
          { head: "MFU", by: (row) => row.utilization.mfu, show: percent },
          { head: "step", by: (row) => row.step.seconds, show: duration },
          { head: "JCT", by: (row) => row.jct?.seconds, show: duration },
          { head: "capital", by: (row) => row.capex.total_usd.typical, show: dollars },
          { head: `${priced === "hour" ? "$/h" : "$/Mtoken"} low – typical – high`, cell: (row) => band(priceOf(row), dollars), by: (row) => priceOf(row).typical },
        ]}
      />
    </Section>
  );
}
