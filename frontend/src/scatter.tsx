/** Points over two axes, some with bands; one can be chosen by pointer or key. */

import { useState } from "preact/hooks";
import { useWidth } from "./plot";
import type { Scale } from "./scales";

export interface Dot {
  name: string;
  x: number;
  y: number;
  color: string;
  /** Radius, in pixels. */
  size: number;
  ringed?: boolean;
  /** From a low to a high end. */
  bandX?: [number, number] | undefined;
  bandY?: [number, number] | undefined;
  /** Whether it can be chosen. */
  choose?: (() => void) | undefined;
  chosen?: boolean;
}

interface ScatterProps {
  label: string;
  dots: Dot[];
  x: Scale;
  y: Scale;
  showX: (value: number) => string;
  showY: (value: number) => string;
  titleX: string;
  titleY: string;
  height?: number;
}

const LETTER = 6.8;
const RIGHT = 18;
const TOP = 26;
const BOTTOM = 42;

export function Scatter(props: ScatterProps) {
  const [ref, width] = useWidth();
  const [hover, setHover] = useState<Dot>();
  const height = props.height ?? 340;
  const left = Math.round(14 + LETTER * Math.max(1, ...props.y.ticks.map((tick) => props.showY(tick).length)));
  const px = (value: number) => left + props.x.at(value) * Math.max(width - left - RIGHT, 10);
  const py = (value: number) => TOP + (1 - props.y.at(value)) * (height - TOP - BOTTOM);
  const every = Math.max(1, Math.ceil(props.x.ticks.length / Math.max(2, Math.floor((width - left) / 80))));
  return (
    <div class="plot" ref={ref}>
      {width > 0 && (
        <svg viewBox={`0 0 ${width} ${height}`} width={width} height={height} role="group" aria-label={props.label} onPointerLeave={() => setHover(undefined)}>
          {props.y.ticks.map((tick) => (
            <g>
              <line class="grid" x1={left} x2={width - RIGHT} y1={py(tick)} y2={py(tick)} />
              <text x={left - 8} y={py(tick)} class="y">{props.showY(tick)}</text>
            </g>
          ))}
          {props.x.ticks.filter((_, index) => index % every === 0).map((tick) => (
            <g>
              <line class="grid" x1={px(tick)} x2={px(tick)} y1={TOP} y2={height - BOTTOM + 4} />
              <text x={px(tick)} y={height - BOTTOM + 17} class="x">{props.showX(tick)}</text>
            </g>
          ))}
          <text x={left} y={12} class="title">{props.titleY}</text>
          <text x={width - RIGHT} y={height - 6} class="title end">{props.titleX}</text>
          {props.dots.map((dot) => <Whiskers dot={dot} px={px} py={py} />)}
          {props.dots.map((dot) => <Point dot={dot} x={px(dot.x)} y={py(dot.y)} hover={() => setHover(dot)} />)}
        </svg>
      )}
      {hover !== undefined && (
        <div class="tip reading" style={{ top: `${Math.max(0, py(hover.y) - 56)}px`, ...(px(hover.x) > width / 2 ? { right: `${width - px(hover.x) + 12}px` } : { left: `${px(hover.x) + 12}px` }) }}>
          <b>{hover.name}</b>
          <span>{props.titleY}: {props.showY(hover.y)}</span>
          <span>{props.titleX}: {props.showX(hover.x)}</span>
        </div>
      )}
    </div>
  );
}

function Whiskers({ dot, px, py }: { dot: Dot; px: (value: number) => number; py: (value: number) => number }) {
  return (
    <g class={dot.chosen ? "whisker chosen" : "whisker"} style={{ stroke: dot.color }}>
      {dot.bandY && <line x1={px(dot.x)} x2={px(dot.x)} y1={py(dot.bandY[0])} y2={py(dot.bandY[1])} />}
      {dot.bandX && <line x1={px(dot.bandX[0])} x2={px(dot.bandX[1])} y1={py(dot.y)} y2={py(dot.y)} />}
    </g>
  );
}

function Point({ dot, x, y, hover }: { dot: Dot; x: number; y: number; hover: () => void }) {
  const act = dot.choose;
  const onKey = (event: KeyboardEvent) => {
    if (act === undefined || (event.key !== "Enter" && event.key !== " ")) return;
    event.preventDefault();
    act();
  };
  const button = act === undefined ? {} : { tabIndex: 0, role: "button" as const, "aria-label": dot.name, "aria-pressed": dot.chosen ?? false, onClick: act, onKeyDown: onKey, onFocus: hover };
  return (
    <g class={act === undefined ? "dot" : "dot pressable"} onPointerEnter={hover} {...button}>
      {act !== undefined && <circle cx={x} cy={y} r={13} class="reach" />}
      <circle cx={x} cy={y} r={dot.size} style={{ fill: dot.color }} />
      {dot.ringed && <circle cx={x} cy={y} r={dot.size + 4} class="ring" />}
      {dot.chosen && <circle cx={x} cy={y} r={dot.size + 7} class="ring chosen" />}
    </g>
  );
}
