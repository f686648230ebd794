/** What a packet-level run adds to a variant of result.json. Parts that were not probed are absent. */

export interface Times {
  min: number | null;
  mean: number | null;
  p50: number | null;
  p99: number | null;
  p999: number | null;
  max: number | null;
}

export interface TailRow {
  group: string;
  flows: number;
  mean_us: number;
  p50_us: number;
  p99_us: number;
  p999_us: number;
  max_us: number;
  slowest: string;
}

export interface QueueRow {
  link: string;
  tier: string;
  depth_bytes: number[];
  utilization?: number[];
  marks?: number[];
  paused_share?: number[];
}

export interface SenderRow {
  flow: string;
  rate_gbps?: number[];
  window_kb?: number[];
}

export interface Storm {
  paused_us_total: number;
  pauses: number;
  longest_us: number;
  links: { link: string; paused_us: number; pauses: number; origin: string }[];
  victims: { flow: string; fct_us: number; alone_us: number; slowdown: number; stopped_by: string }[];
}

export interface PacketSection {
  flows_total?: number;
  flows_finished?: number;
  last_finish_us?: number | null;
  payload_bytes?: number;
  fct_us: Times;
  fct_cdf: [us: number, share: number][];
  tails: TailRow[];
  packets: Record<string, number>;
  queues?: { time_us: number[]; rows: QueueRow[] } | null;
  flows?: { time_us: number[]; rows: SenderRow[] } | null;
  storm?: Storm | null;
  reorder?: { depth_p50: number; depth_p99: number; depth_max: number } | null;
  constants?: Record<string, number | string | boolean | null>;
  left_out?: string[];
}

/** A variant as the packet views need it: a training step may or may not stand beside it. */
export interface PacketVariant {
  name: string;
  packet: PacketSection;
}

export const hasPackets = <V extends { name: string; packet?: PacketSection | null }>(variant: V): variant is V & PacketVariant =>
  variant.packet !== undefined && variant.packet !== null;
