/** Lines over one axis, drawn at the width that the page gives, with the values under the pointer. */

import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { Legend } from "./parts";
import type { Scale } from "./scales";

export interface Series {
  name: string;
  color: string;
  /** Drawn first and thin: what stands beside the chosen one. */
  faint?: boolean;
  dashes?: string | undefined;
  /** By ascending x. */
  points: [x: number, y: number][];
}

interface PlotProps {
  label: string;
  series: Series[];
  x: Scale;
  y: Scale;
  showX: (value: number) => string;
  showY: (value: number) => string;
  titleX: string;
  titleY: string;
  /** A value holds until the next point. */
  steps?: boolean;
  /** What stands for a value beyond the last point of a line; the last value without it. */
  after?: string;
  height?: number;
  /** Names stand at the ends of their lines; in a legend above where there is no room. */
  named?: boolean;
  /** Every point is drawn. */
  dots?: boolean;
  /** A value of x that is marked. */
  at?: number | undefined;
}

/** Width of a figure of the axis, and a little. */
const LETTER = 6.8;
const RIGHT = 14;
const TOP = 24;
const BOTTOM = 40;
/** From so wide a plot on, up to so many lines, names stand beside their lines. */
const WIDE = 620;
const MOST_NAMES = 9;
/** Lines that end before this share of the width would be far from their names. */
const FAR = 0.9;
/** Height of a name. */
const LINE = 15;

/** The width of an element, in pixels, as it changes. */
export function useWidth(): [{ current: HTMLDivElement | null }, number] {
  const ref = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(0);
  useLayoutEffect(() => {
    const element = ref.current;
    if (element === null) return;
    setWidth(element.clientWidth);
    let frame = 0;
    const watcher = new ResizeObserver(() => {
      cancelAnimationFrame(frame);
      frame = requestAnimationFrame(() => setWidth(element.clientWidth));
    });
    watcher.observe(element);
    return () => {
      cancelAnimationFrame(frame);
      watcher.disconnect();
    };
  }, []);
  return [ref, width];
}

/** The point that holds at `x`: the last one that is not beyond it. */
function valueAt(points: [number, number][], x: number): [number, number] | undefined {
  let low = 0;
  let high = points.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((points[middle]?.[0] ?? 0) <= x) low = middle + 1;
    else high = middle;
  }
  return points[Math.max(low - 1, 0)];
}

export function Plot(props: PlotProps) {
  const [ref, width] = useWidth();
  const [hover, setHover] = useState<number | null>(null);
  const height = props.height ?? 280;
  const left = Math.round(14 + LETTER * Math.max(...props.y.ticks.map((tick) => props.showY(tick).length)));
  const reaches = props.series.every(({ points }) => props.x.at(points[points.length - 1]?.[0] ?? -Infinity) >= FAR);
  const beside = (props.named ?? false) && width >= WIDE && props.series.length <= MOST_NAMES && reaches;
  const right = beside ? RIGHT + 6 + LETTER * Math.max(...props.series.map(({ name }) => name.length)) : RIGHT;
  const inner = { width: Math.max(width - left - right, 10), height: height - TOP - BOTTOM };
  const px = (value: number) => left + props.x.at(value) * inner.width;
  const py = (value: number) => TOP + (1 - props.y.at(value)) * inner.height;
  const xTicks = thinned(props.x.ticks, Math.max(2, Math.floor(inner.width / 70)));
  return (
    <div class="plot" ref={ref}>
      {props.named && !beside && <Legend items={props.series.map(({ name, color, dashes }) => ({ name, color, dashes }))} />}
      {width > 0 && (
        <svg
          viewBox={`0 0 ${width} ${height}`}
          width={width}
          height={height}
          role="img"
          aria-label={props.label}
          onPointerMove={(event) => setHover(nearest(props, (event.offsetX - left) / inner.width))}
          onPointerLeave={() => setHover(null)}
        >
          {props.y.ticks.map((tick) => (
            <g>
              <line class="grid" x1={left} x2={width - right} y1={py(tick)} y2={py(tick)} />
              <text x={left - 8} y={py(tick)} class="y">{props.showY(tick)}</text>
            </g>
          ))}
          {xTicks.map((tick) => (
            <g>
              <line class="grid" x1={px(tick)} x2={px(tick)} y1={TOP} y2={height - BOTTOM + 4} />
              <text x={px(tick)} y={height - BOTTOM + 17} class="x">{props.showX(tick)}</text>
            </g>
          ))}
          <text x={left} y={12} class="title">{props.titleY}</text>
          <text x={width - right} y={height - 6} class="title end">{props.titleX}</text>
          {[...props.series].sort((a, b) => Number(b.faint ?? false) - Number(a.faint ?? false)).map((each) => (
            <path
              d={pathOf(each.points, px, py, props.steps ?? false)}
              class={each.faint ? "curve faint" : "curve"}
              style={{ stroke: each.color, strokeDasharray: each.dashes }}
            />
          ))}
          {props.dots && props.series.map((each) => each.points.map(([x, y]) => <circle cx={px(x)} cy={py(y)} r={3} style={{ fill: each.color }} />))}
          {beside && ends(props.series, py, height).map(({ name, color, top }) => (
            <text x={width - right + 8} y={top} class="end-name" style={{ fill: color }}>{name}</text>
          ))}
          {props.at !== undefined && <line class="marked" x1={px(props.at)} x2={px(props.at)} y1={TOP} y2={height - BOTTOM} />}
          {hover !== null && <line class="cursor" x1={px(hover)} x2={px(hover)} y1={TOP} y2={height - BOTTOM} />}
        </svg>
      )}
      {hover !== null && <Reading {...props} at={hover} left={px(hover)} width={width} />}
    </div>
  );
}

function Reading(props: PlotProps & { at: number; left: number; width: number }) {
  const right = props.left > props.width / 2;
  const side = right ? { right: `${props.width - props.left + 10}px` } : { left: `${props.left + 10}px` };
  return (
    <div class="tip reading" style={{ top: `${TOP}px`, ...side }}>
      <b>{props.showX(props.at)}</b>
      {props.series.map((each) => {
        const point = valueAt(each.points, props.at);
        const before = point === undefined || (each.points[0]?.[0] ?? 0) > props.at;
        const beyond = (each.points[each.points.length - 1]?.[0] ?? 0) < props.at ? props.after : undefined;
        return <span><i style={{ background: each.color }} />{each.name}: {before ? "none yet" : (beyond ?? props.showY(point[1]))}</span>;
      })}
    </div>
  );
}

/** The value of x nearest to a place from 0 to 1, among all points. */
function nearest(props: PlotProps, place: number): number | null {
  let best: number | null = null;
  let least = Infinity;
  for (const { points } of props.series)
    for (const [x] of points) {
      const distance = Math.abs(props.x.at(x) - place);
      if (distance < least) [best, least] = [x, distance];
    }
  return best;
}

/** Where the names of lines stand: at the height of their last points, moved apart where they would meet. */
function ends(series: Series[], py: (y: number) => number, height: number): { name: string; color: string; top: number }[] {
  const found = series
    .flatMap(({ name, color, points }) => { const last = points[points.length - 1]; return last === undefined ? [] : [{ name, color, top: py(last[1]) }]; })
    .sort((a, b) => a.top - b.top);
  for (const [index, each] of found.entries()) each.top = Math.max(each.top, index === 0 ? TOP : (found[index - 1]?.top ?? 0) + LINE);
  let floor = height - BOTTOM + 4;
  for (const each of found.reverse()) {
    each.top = Math.min(each.top, floor);
    floor = each.top - LINE;
  }
  return found;
}

function pathOf(points: [number, number][], px: (x: number) => number, py: (y: number) => number, steps: boolean): string {
  return points
    .map(([x, y], index) => {
      const [left, top] = [px(x).toFixed(1), py(y).toFixed(1)];
      if (index === 0) return `M${left} ${top}`;
      return steps ? `H${left}V${top}` : `L${left} ${top}`;
    })
    .join("");
}

const thinned = (ticks: number[], most: number): number[] => {
  const every = Math.ceil(ticks.length / most);
  return ticks.filter((_, index) => index % every === 0);
};
