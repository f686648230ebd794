import { band, count, dollars, duration, percent, power } from "../format";
import { Figure } from "../parts";
import { priceOf, type Stepped } from "../result";
import type { FaultCost } from "../result.gen";

/** A warning as a sentence; its keys need no marks here. */
function sentence(line: string): string {
  const plain = line.replaceAll("`", "");
  return `${plain.charAt(0).toUpperCase()}${plain.slice(1)}.`;
}

/** What faults cost: the step without them, tokens, time and dollars of the job. */
export function faultsInWords(variant: Stepped, cost: FaultCost): string {
  const step = `a step takes ${duration(variant.step.seconds)}, ${duration(variant.step.seconds - cost.step_s)} without`;
  const lost = cost.tokens_lost === null ? "" : `, and ${percent(cost.tokens_lost)} of the tokens are lost`;
  const job = cost.job_s === null ? "" : ` The job takes ${duration(cost.job_s)} longer.`;
  const price = cost.cpmt_usd === null ? "" : ` A million tokens costs ${dollars(cost.cpmt_usd)} more${cost.job_usd === null ? "" : `, the job ${dollars(cost.job_usd)}`}.`;
  return `With ${cost.what} ${step}${lost}.${job}${price}`;
}

export function Summary({ variant }: { variant: Stepped }) {
  const { utilization, step, jct, power: watts, cpmt, capex, tax } = variant;
  return (
    <section>
      <h2>{variant.name}</h2>
      {variant.fault_cost && <p class="headline">{faultsInWords(variant, variant.fault_cost)}</p>}
      {variant.warnings.map((line) => <p class="note" key={line}>{sentence(line)}</p>)}
      <div class="figures">
        <Figure name="Network tax" value={percent(tax.tokens_lost)} under={`scale-out; scale-up networks ${percent(tax.scale_up.tokens_lost)}`} />
        <Figure name="GPU utilization" value={percent(utilization.gpu)} under={utilization.mfu === null ? undefined : `MFU ${percent(utilization.mfu)}`} />
        <Figure name="Step time" value={duration(step.seconds)} under={step.samples.length > 1 ? `p95 ${duration(step.p95_s)}, p99 ${duration(step.p99_s)}` : undefined} />
        {utilization.tokens_per_s !== null && utilization.tokens_per_s_per_gpu !== null && (
          <Figure name="Throughput" value={`${count(utilization.tokens_per_s)} tok/s`} under={`${count(utilization.tokens_per_s_per_gpu)} per GPU`} />
        )}
        {jct !== null && <Figure name="Job completion" value={duration(jct.seconds)} under={`goodput ${percent(jct.goodput)}`} />}
        <Figure name="Power" value={power(watts.total_w.typical)} under={`data movement ${percent(watts.data_movement_share)}`} />
        <Figure name={cpmt === null ? "$ per hour" : "$ per million tokens"} value={dollars(priceOf(variant).typical)} under={band(priceOf(variant), dollars)} />
        <Figure name="Capital" value={dollars(capex.total_usd.typical)} under={band(capex.total_usd, dollars)} />
      </div>
    </section>
  );
}
