/** The load of a run's network in windows of its step: of edges at once, of cables as they are asked for. */

import { api, type LoadHead } from "./api";
import { at } from "./hall";
import type { Packed } from "./packed";

/** Loads that one request brings. */
const MOST = 4_000_000;
const FULL = 255;

export class OverTime {
  readonly head: LoadHead;
  readonly start: ArrayLike<number>;
  readonly mean: ArrayLike<number>;
  readonly most: ArrayLike<number>;
  readonly step: ArrayLike<number>;
  private readonly edges: ArrayLike<number>;
  private readonly chunks = new Map<number, Promise<Uint8Array>>();

  constructor(packed: Packed<LoadHead>, private readonly run: string, private readonly variant: number, private readonly cables: number) {
    this.head = packed.head;
    [this.start, this.mean, this.most] = [packed.column("start_us"), packed.column("mean"), packed.column("most")];
    [this.step, this.edges] = [packed.column("step"), packed.column("edges")];
  }

  /** When a window ends, in microseconds. */
  end(window: number): number {
    return window + 1 < this.head.windows ? at(this.start, window + 1) : this.head.end_us;
  }

  /** Load of an edge of the drawing, of the step without a window. */
  edge(edge: number, window: number | undefined): number {
    return window === undefined ? at(this.step, edge) : at(this.edges, window * this.head.picture.edges.length + edge) / FULL;
  }

  /** Load of every cable of the hall. */
  async ofCables(window: number): Promise<Float32Array> {
    const count = Math.max(1, Math.min(this.head.windows, Math.floor(MOST / Math.max(this.cables, 1)), 400));
    const chunk = Math.floor(window / count);
    const found = this.chunks.get(chunk) ?? api.loadOfCables(this.run, this.variant, chunk * count, count);
    this.chunks.set(chunk, found);
    found.catch(() => this.chunks.delete(chunk));
    const from = (window - chunk * count) * this.cables;
    return Float32Array.from((await found).subarray(from, from + this.cables), (value) => value / FULL);
  }
}
