/** A cluster in time: its parts of time, the axis in hours or days, and the heat map's bytes. */

import { tidy } from "./format";
import type { Variant } from "./result";
import type { HeatFigures, OperateVariant } from "./result.gen";
import type { Scale } from "./scales";

export const isOperate = (variant: Variant): variant is OperateVariant => "operate" in variant;

const HOUR = 3600;
const DAY = 24 * HOUR;
const STEPS = [60, 600, HOUR, 2 * HOUR, 6 * HOUR, 12 * HOUR, DAY, 2 * DAY, 7 * DAY, 14 * DAY, 30 * DAY, 90 * DAY, 365 * DAY];

/** Seconds from 0, with ticks at hours or days that people count in. */
export function timeScale(span: number, wanted = 8): Scale {
  const step = STEPS.find((one) => span / one <= wanted) ?? span;
  const ticks = Array.from({ length: Math.floor(span / step) + 1 }, (_, index) => index * step);
  return { at: (value) => value / (span || 1), ticks };
}

export const moment = (seconds: number, span: number): string => {
  const [scale, unit] = span >= 2 * DAY ? [DAY, "d"] : span >= 2 * HOUR ? [HOUR, "h"] : [60, "min"];
  return `${tidy(seconds / scale)} ${unit}`;
};

/** Of a cell's use, from idle to full; above it: why nodes were away. */
const FULL = 200;

export const AWAY = [
  { name: "broken, waiting for repair", color: "var(--hot)" },
  { name: "spare", color: "var(--compute)" },
  { name: "kept free: maintenance, reservation", color: "var(--straggler)" },
];

export interface Cell {
  use: number;
  away: (typeof AWAY)[number] | undefined;
}

export const cellsOf = (heat: HeatFigures): Uint8Array => Uint8Array.from(atob(heat.cells), (character) => character.charCodeAt(0));

export const cellOf = (value: number): Cell => ({ use: Math.min(value / FULL, 1), away: AWAY[value - FULL - 1] });
