import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { paintedOnChange, resolver } from "../canvas";
import { duration, percent } from "../format";
import { AWAY, cellOf, cellsOf, moment, timeScale } from "../operate";
import { Legend, Section } from "../parts";
import type { HeatFigures, OperateFigures } from "../result.gen";

const LEFT = 118;
const RIGHT = 10;
const TOP = 20;
const BOTTOM = 38;
const LEAST = 160;
const MOST = 420;
/** Pixels between two names of nodes. */
const APART = 44;

const heightOf = (heat: HeatFigures): number => Math.max(LEAST, Math.min(MOST, heat.rows * 5));

interface Drawing {
  heat: HeatFigures;
  cells: Uint8Array;
  span: number;
}

function draw(canvas: HTMLCanvasElement, { heat, cells, span }: Drawing): void {
  const width = canvas.clientWidth;
  const inner = { width: width - LEFT - RIGHT, height: heightOf(heat) };
  canvas.width = width * devicePixelRatio;
  canvas.height = (inner.height + TOP + BOTTOM) * devicePixelRatio;
  const context = canvas.getContext("2d");
  if (context === null) return;
  const color = resolver(canvas);
  context.scale(devicePixelRatio, devicePixelRatio);
  const wide = inner.width / heat.columns;
  const high = inner.height / heat.rows;
  context.fillStyle = color("var(--lane)");
  context.fillRect(LEFT, TOP, inner.width, inner.height);
  for (let row = 0; row < heat.rows; row++)
    for (let column = 0; column < heat.columns; column++) {
      const { use, away } = cellOf(cells[row * heat.columns + column] ?? 0);
      context.globalAlpha = away === undefined ? use : 1;
      context.fillStyle = color(away?.color ?? "var(--accent)");
      const [left, top] = [Math.round(LEFT + column * wide), Math.round(TOP + row * high)];
      context.fillRect(left, top, Math.round(LEFT + (column + 1) * wide) - left, Math.round(TOP + (row + 1) * high) - top);
    }
  context.globalAlpha = 1;
  axes(context, heat, span, inner, color);
}

function axes(context: CanvasRenderingContext2D, heat: HeatFigures, span: number, inner: { width: number; height: number }, color: (name: string) => string): void {
  context.font = "12px system-ui, sans-serif";
  context.textBaseline = "middle";
  context.fillStyle = color("var(--muted)");
  context.strokeStyle = color("var(--line)");
  context.strokeRect(LEFT, TOP, inner.width, inner.height);
  context.textAlign = "left";
  context.fillText("node", 0, TOP / 2);
  context.textAlign = "right";
  const every = Math.max(1, Math.ceil((APART * heat.rows) / inner.height / 2));
  for (let row = 0; row < heat.rows; row += every) {
    const y = TOP + ((row + 0.5) * inner.height) / heat.rows;
    context.fillText((heat.first[row] ?? "").slice(0, 17), LEFT - 8, y);
  }
  const scale = timeScale(span, Math.max(2, Math.floor(inner.width / 60)));
  context.textAlign = "center";
  for (const tick of scale.ticks) {
    const x = LEFT + scale.at(tick) * inner.width;
    context.beginPath();
    context.moveTo(x, TOP + inner.height);
    context.lineTo(x, TOP + inner.height + 5);
    context.stroke();
    context.fillText(moment(tick, span), Math.min(x, LEFT + inner.width - 12), TOP + inner.height + 14);
  }
  context.textAlign = "right";
  context.fillText("time from the first submission", LEFT + inner.width, TOP + inner.height + 31);
}

interface Hover {
  x: number;
  y: number;
  text: string;
}

function hit({ heat, cells, span }: Drawing, width: number, x: number, y: number): string | null {
  const column = Math.floor(((x - LEFT) / (width - LEFT - RIGHT)) * heat.columns);
  const row = Math.floor(((y - TOP) / heightOf(heat)) * heat.rows);
  if (column < 0 || row < 0 || column >= heat.columns || row >= heat.rows) return null;
  const { use, away } = cellOf(cells[row * heat.columns + column] ?? 0);
  return `${heat.first[row]} at ${moment((column / heat.columns) * span, span)}: ${away?.name ?? `${percent(use, 0)} in use`}`;
}

/** Nodes from top to bottom in the cluster's order, time from left to right: what jobs had of them, and who was away. */
export function Heat({ figures }: { figures: OperateFigures }) {
  const { heat, span_s: span } = figures;
  const canvas = useRef<HTMLCanvasElement>(null);
  const [hover, setHover] = useState<Hover | null>(null);
  const drawing = useMemo(() => ({ heat, cells: cellsOf(heat), span }), [heat, span]);
  useEffect(() => {
    const element = canvas.current;
    return element === null ? undefined : paintedOnChange(element, () => draw(element, drawing));
  }, [drawing]);
  const shared = Math.ceil(figures.nodes / heat.rows);
  const seen = new Set(drawing.cells);
  const away = AWAY.filter((_, index) => seen.has(201 + index));
  return (
    <Section
      title="Nodes against time"
      note={`A row is ${shared === 1 ? "a node" : `${shared} neighbouring nodes`}, a column ${duration(span / heat.columns)}. The darker, the more of its accelerators jobs had.${shared === 1 ? "" : " Broken: one of the nodes, and a tenth of them at least."}`}
    >
      <div class="scale"><span>idle</span><i style={{ background: "linear-gradient(to right, var(--lane), var(--accent))" }} /><span>all accelerators in use</span></div>
      {away.length > 0 && <Legend items={away} />}
      <div class="timeline">
        <canvas
          ref={canvas}
          class="plain"
          role="img"
          aria-label="Use of the nodes over time"
          style={{ height: `${heightOf(heat) + TOP + BOTTOM}px` }}
          onPointerMove={(event) => {
            const text = hit(drawing, event.currentTarget.clientWidth, event.offsetX, event.offsetY);
            setHover(text === null ? null : { x: event.offsetX, y: event.offsetY, text });
          }}
          onPointerLeave={() => setHover(null)}
        />
        {hover !== null && <div class="tip" style={{ left: `${Math.min(hover.x + 12, 800)}px`, top: `${hover.y + 12}px` }}>{hover.text}</div>}
      </div>
    </Section>
  );
}
