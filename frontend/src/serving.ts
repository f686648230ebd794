/** Variants of services, and how their percentiles are drawn. */

import type { Variant } from "./result";
import type { LatencyParts, Percentiles, PipelineVariant, ServingVariant } from "./result.gen";

export type Served = ServingVariant | PipelineVariant;
export type Level = Exclude<keyof Percentiles, "mean">;

export const isServing = (variant: Variant): variant is Served => "serving" in variant;

/** Parts of the time to the first token in the order in which they are stacked. */
export const PARTS: { key: keyof LatencyParts; name: string; color: string }[] = [
  { key: "queue_s", name: "queue", color: "var(--straggler)" },
  { key: "compute_s", name: "compute", color: "var(--compute)" },
  { key: "collectives_s", name: "collectives", color: "var(--bandwidth)" },
  { key: "transfer_s", name: "KV transfer", color: "var(--contention)" },
];

export const LEVELS: { key: Level; name: string }[] = [
  { key: "p50", name: "p50" },
  { key: "p90", name: "p90" },
  { key: "p99", name: "p99" },
  { key: "p999", name: "p99.9" },
];

/** What networks cost a service; pipelines have none. */
export const servingTax = (variant: Served) => ("tax" in variant ? variant.tax : undefined);
