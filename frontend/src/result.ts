/** The result of a run as it stands in result.json, and how the report finds it. */

import type { PacketSection } from "./packet";

export interface Band {
  low: number;
  typical: number;
  high: number;
}

export interface TimeRow {
  cause: string;
  group: string;
  phase: string;
  seconds: number;
  share: number;
}

export interface Variant {
  name: string;
  settings: Record<string, unknown>;
  step: { seconds: number; p50_s: number; p95_s: number; p99_s: number; samples: number[] };
  utilization: {
    gpu: number;
    mfu: number | null;
    hfu: number | null;
    /** null where the work makes no tokens. */
    tokens_per_s: number | null;
    tokens_per_s_per_gpu: number | null;
    ranks: { min: number; p50: number; max: number };
    per_rank: number[];
  };
  time: TimeRow[];
  lockstep: { gpu_seconds_lost_to_stragglers: number; events: number; worst_ranks?: { rank: number; gpu_seconds: number }[] };
  /** null where the scenario names no token budget. */
  jct: { tokens: number; steps: number; seconds: number; goodput: number } | null;
  power: {
    components: { name: string; low_w: number; typical_w: number; high_w: number }[];
    total_w: Band;
    energy_per_step_j: number;
    data_movement_share: number;
  };
  capex: {
    components: { name: string; low_usd: number; typical_usd: number; high_usd: number; count: number }[];
    total_usd: Band;
    per_gpu_usd: Band;
  };
  /** null where the work makes no tokens; `cost` is there then. */
  cpmt:
    | (Band & {
        breakdown: (Band & { name: string })[];
        sensitivity: { parameter: string; low_value: string | number; high_value: string | number; cpmt_low: number; cpmt_high: number }[];
      })
    | null;
  cost?: { usd_per_h: Band; usd_per_run: Band; breakdown: (Band & { name: string })[] };
  /** Of work that was read from a trace. */
  trace?: { file: string; format: string; ranks: number; computations: number; transfers: number; collectives: number; lacks: string[] };
  bottleneck: { name: string; headline: string; ranking: { resource: string; factor: number | string; step_seconds: number; gain: number }[] };
  network: {
    tiers: { name: string; links: number; rate_bps: number; mean_utilization: number; max_utilization: number; bytes: number }[];
    saturated_tier: string | null;
    hot_links: { name: string; tier: string; utilization: number }[];
  };
  memory: { rows: MemoryRow[] };
  timeline: { ranks: number[]; tracks: Track[]; labels: TrackLabel[] };
  topology: { kind: string; picture?: Picture | null; [extra: string]: unknown };
  collectives: {
    group: string;
    kind: string;
    size_bytes: number;
    count: number;
    algorithm: string;
    protocol: string;
    alone_s: number;
    mean_s: number;
  }[];
  /** Missing in results of earlier versions. */
  storage?: {
    data: {
      bytes_per_rank: number;
      bytes_per_step: number;
      hit_rate: number;
      readers: number;
      workers: number;
      read_s: number;
      worker_s: number;
      wait_s: number;
      variation_s: number;
      wanted_bps: number;
      reached_bps: number;
      limit: string;
    } | null;
    checkpoint: {
      bytes: number;
      writers: number;
      interval_steps: number;
      stall_s: number;
      write_s: number;
      read_s: number;
      mtbf_h: number;
      best_interval_steps: number | null;
      goodput: number;
      best_goodput: number | null;
    } | null;
  };
  warnings?: string[];
  packet?: PacketSection | null;
}

/** Of a run of given flows, without a model of training. */
export interface BareVariant {
  name: string;
  settings: Record<string, unknown>;
  packet: PacketSection;
}

/** What a variant costs: per million tokens, or per hour where it makes none. */
export const priceOf = (variant: Variant): Band => variant.cpmt ?? variant.cost?.usd_per_h ?? { low: 0, typical: 0, high: 0 };

export const isTraining = (variant: Variant | BareVariant): variant is Variant => "step" in variant;

export interface MemoryRow {
  stage: number | string;
  parameters_bytes: number;
  gradients_bytes: number;
  optimizer_bytes: number;
  activations_bytes: number;
  buffers_bytes: number;
  total_bytes: number;
  capacity_bytes: number;
}

export interface TrackLabel {
  phase: string;
  op: string;
  group: string;
  kind?: string;
}

export interface Track {
  rank: number;
  stream: string;
  tasks: [start_us: number, duration_us: number, label: number][];
}

/** A tiered drawing: switches (or bundles of them) by tier, and how busy the cables between two of them are. */
export interface Picture {
  tiers: { name: string; nodes: { label: string; count: number }[] }[];
  edges: { from: [tier: number, node: number]; to: [tier: number, node: number]; links: number; mean: number; max: number }[];
}

export interface SourceRow {
  item: string;
  field: string;
  value: string;
  source: string;
  year: number | string;
  confidence: string;
}

export interface Result {
  format: string;
  name: string;
  scenario: unknown;
  provenance: {
    version: string;
    engine: string;
    seed: number;
    digest: string;
    created: string;
    sources: SourceRow[];
    left_out: string[];
    defaults: string[];
  };
  variants: (Variant | BareVariant)[];
}

async function inflate(base64: string): Promise<string> {
  const bytes = Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).text();
}

/** The result that the report carries in itself. */
export async function embeddedResult(): Promise<Result> {
  const text = document.getElementById("railyard-result")?.textContent?.trim() ?? "";
  if (text === "" || text.startsWith("@@")) throw new Error("this page carries no result");
  const result = JSON.parse(await inflate(text)) as Result;
  if (!result.format.startsWith("railyard/1")) throw new Error(`format ${result.format} is not railyard/1`);
  return result;
}
