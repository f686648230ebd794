/** What networks take of a step or a service, in words and as parts of a bar. */

import { causeColor, causeRank } from "./colors";
import { percent } from "./format";
import type { Stepped } from "./result";
import type { ServingTaxShares, TaxShares } from "./result.gen";
import type { Served } from "./serving";

/** Share from which on a part is named: less would be printed as 0.0 %. */
const SEEN = 0.0005;

/** `9.2 % (slowed kernels 6.4, contention 2.5)`. */
export function taxWords(shares: TaxShares): string {
  const named = Object.entries({ ...shares.exposed, "slowed kernels": shares.slowed_kernels })
    .filter(([, share]) => share >= SEEN)
    .sort(([, a], [, b]) => b - a)
    .map(([cause, share]) => `${cause} ${(100 * share).toFixed(1)}`);
  return `${percent(shares.tokens_lost)}${named.length > 0 ? ` (${named.join(", ")})` : ""}`;
}

/** The first sentence on a variant. */
export function taxSentence({ tax, utilization }: Stepped): string {
  const what = utilization.tokens_per_s_per_gpu === null ? "time" : "tokens";
  return `The scale-out network takes ${taxWords(tax)} of the ${what}; scale-up networks take ${taxWords(tax.scale_up)}.`;
}

export interface StepPart {
  name: string;
  share: number;
  color: string;
}

/** Shares that add up to the step: what no network changes by cause, then each network's waits and slowed kernels. */
export function stepParts({ tax }: Stepped): StepPart[] {
  const rest = Object.entries(tax.rest)
    .sort(([a], [b]) => causeRank(a) - causeRank(b))
    .map(([cause, share]) => ({ name: cause === "compute" ? "computation" : cause, share, color: causeColor(cause) }));
  const waits = (shares: TaxShares) => shares.tokens_lost - shares.slowed_kernels;
  return [
    ...rest,
    { name: "scale-up: exposed communication", share: waits(tax.scale_up), color: "var(--latency)" },
    { name: "scale-up: slowed kernels", share: tax.scale_up.slowed_kernels, color: "color-mix(in oklab, var(--latency) 55%, var(--panel))" },
    { name: "scale-out: exposed communication", share: waits(tax), color: "var(--hot)" },
    { name: "scale-out: slowed kernels", share: tax.slowed_kernels, color: "color-mix(in oklab, var(--hot) 55%, var(--panel))" },
  ].filter((part) => part.share >= SEEN);
}

/** What networks take of a service; pipelines have none. */
export const servingTax = (variant: Served) => ("tax" in variant ? variant.tax : undefined);

/** `0.0 % / 2.1 % / 0.4 %`: of the goodput, of the p99 of TTFT and of the p99 of TPOT. */
export function servingTaxWords(shares: ServingTaxShares | undefined): string {
  if (shares === undefined) return "—";
  return [shares.goodput_lost, shares.ttft.p99, shares.tpot.p99].map((share) => (share === undefined ? "—" : percent(share))).join(" / ");
}
