/** Ticks and scales of charts. */

export function niceStep(span: number, wanted: number): number {
  const raw = span / wanted;
  const power = 10 ** Math.floor(Math.log10(raw));
  return [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= raw) ?? raw;
}

export interface Scale {
  /** From 0 to 1. */
  at: (value: number) => number;
  ticks: number[];
}

export function linear(from: number, to: number, wanted: number): Scale {
  const span = to - from || 1;
  const step = niceStep(span, wanted);
  const ticks: number[] = [];
  for (let tick = Math.ceil(from / step - 1e-9) * step; tick <= to + step * 1e-6; tick += step) ticks.push(tick);
  return { at: (value) => (value - from) / span, ticks };
}

/** Whole decades, with 2 and 5 between them where there are few. */
export function logarithmic(from: number, to: number): Scale {
  const low = Math.log10(from);
  const span = Math.log10(to) - low || 1;
  const factors = span > 2.5 ? [1] : [1, 2, 5];
  const ticks: number[] = [];
  for (let decade = Math.floor(low); decade <= Math.ceil(low + span); decade++)
    for (const factor of factors) {
      const tick = factor * 10 ** decade;
      if (tick >= from * 0.999 && tick <= to * 1.001) ticks.push(tick);
    }
  return { at: (value) => (Math.log10(Math.max(value, from)) - low) / span, ticks };
}
