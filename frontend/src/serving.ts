/** What a serving run adds to a variant of result.json. */

import type { Band } from "./result";

export type Level = "p50" | "p90" | "p99" | "p999";
export type Percentiles = Record<Level | "mean", number | null>;

export interface TtftParts {
  queue_s: number;
  compute_s: number;
  network_s: number;
  transfer_s: number;
}

export interface LoadPoint {
  rate_per_s: number;
  attainment: number;
  goodput_per_s: number;
  ttft_p50_s: number | null;
  ttft_p99_s: number | null;
  tpot_p50_s: number | null;
  tpot_p99_s: number | null;
  output_tokens_per_s: number;
  requests: number;
  overloaded: boolean;
}

export interface FrontPoint {
  rate_per_s: number;
  per_user: number;
  per_gpu: number;
  per_usd: number;
  front: boolean;
  front_usd: boolean;
}

/** One stage of a pipeline. */
export interface Stage {
  name: string;
  kind: string;
  taken: number;
  hardware: { role: string; server: string; accelerator: string; accelerators: number; replicas: number }[];
  busy: number | null;
  seconds: Percentiles;
  queue_s: number;
  compute_s: number;
  ttft_parts: Partial<Record<Level | "mean", TtftParts>>;
  e2e_parts: Partial<Record<Level | "mean", TtftParts>>;
  usd_per_h: Band;
}

export interface Serving {
  outcome: string;
  requests: { count: number; rate_per_s: number; input_tokens_mean: number; output_tokens_mean: number; done: number; dropped: number; unfinished: number; source: string };
  ttft_s: Percentiles;
  tpot_s: Percentiles;
  itl_s: Percentiles;
  e2e_s: Percentiles;
  queue_s: Percentiles;
  ttft_parts: Partial<Record<Level | "mean", TtftParts>>;
  network_share: { ttft: Partial<Record<Level | "mean", number>>; tpot: Partial<Record<Level | "mean", number>> };
  slo: { ttft_s: number | null; tpot_s: number | null; e2e_s: number | null; target: number; attainment: number; goodput_rps: number };
  throughput: { span_s: number; input_tokens_per_s: number; output_tokens_per_s: number; accelerators: number; per_gpu: number; per_user: number | null; per_mw: number };
  kv: { hit_rate: number; loaded_rate: number; moved_rate: number; peak_share: number; preemptions: number; reuse?: { pool: string; prefix_tokens: number; peak_bps: number; predicted_bps: number }[] };
  replicas: { pool: string; busy: number; loads: number; load_s: number; slowed: number; iterations: number; input_tokens: number; output_tokens: number; kv_peak_share: number }[];
  pools: { role: string; replicas: number; accelerator: string; accelerators: number; prompt: number; decode: number; network: number }[];
  links: { name: string; tier: string; rate_bps: number; utilization: number }[];
  cpmt: { total: Band; input: Band; output: Band; split_input: Band; split_output: Band; rented_total: Band | null; prompt_share: number; breakdown: (Band & { name: string })[]; usd_per_h: Band } | null;
  power: { components: { name: string; low_w: number; typical_w: number; high_w: number }[]; total_w: Band; provisioned_w: Band };
  capex: { total_usd: Band; per_gpu_usd: Band };
  capacity: { rate_per_s: number; bounded: boolean; points: LoadPoint[] } | null;
  pareto: FrontPoint[];
  stages?: Stage[];
}

export interface ServingVariant {
  name: string;
  settings: Record<string, unknown>;
  serving: Serving;
  warnings?: string[];
}

export const isServing = <V extends { name: string }>(variant: V): variant is V & ServingVariant => "serving" in variant;

/** Parts of the time to the first token in the order in which they are stacked. */
export const PARTS: { key: keyof TtftParts; name: string; color: string }[] = [
  { key: "queue_s", name: "queue", color: "var(--straggler)" },
  { key: "compute_s", name: "compute", color: "var(--compute)" },
  { key: "network_s", name: "network (collectives)", color: "var(--bandwidth)" },
  { key: "transfer_s", name: "transfer of keys and values", color: "var(--contention)" },
];

export const LEVELS: { key: Level; name: string }[] = [
  { key: "p50", name: "p50" },
  { key: "p90", name: "p90" },
  { key: "p99", name: "p99" },
  { key: "p999", name: "p99.9" },
];
