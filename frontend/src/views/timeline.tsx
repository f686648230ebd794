import { useEffect, useRef, useState } from "preact/hooks";
import { groupColor } from "../colors";
import { paintedOnChange, resolver } from "../canvas";
import { axisTime, duration } from "../format";
import { Legend, Section } from "../parts";
import { niceStep } from "../scales";
import { byKey, moved, zoomed, type Span } from "../span";
import type { Stepped } from "../result";
import type { Track, TrackLabel } from "../result.gen";

const ROW = 20;
const GAP = 4;
const LEFT = 128;
const AXIS = 22;

interface Hover {
  x: number;
  y: number;
  text: string;
}

export const labelText = (label: TrackLabel | undefined): string =>
  label === undefined ? "" : [label.phase, label.op, label.group].filter((part, index, all) => part !== "" && all.indexOf(part) === index).join(" · ");

/** What a task counts as: its communicator, data or checkpoint where storage is meant, else computation. */
export function taskGroup(label: TrackLabel | undefined): string {
  if (label?.phase === "data" || label?.phase === "checkpoint") return label.phase;
  return label?.group || "compute";
}

export const taskColor = (label: TrackLabel | undefined): string => groupColor(taskGroup(label));

const heightOf = (tracks: Track[]): number => tracks.length * (ROW + GAP) + AXIS;

function draw(canvas: HTMLCanvasElement, tracks: Track[], labels: TrackLabel[], view: Span): void {
  const scale = devicePixelRatio;
  const width = canvas.clientWidth;
  const height = heightOf(tracks);
  canvas.width = width * scale;
  canvas.height = height * scale;
  const context = canvas.getContext("2d");
  if (context === null) return;
  const color = resolver(canvas);
  context.scale(scale, scale);
  context.font = "12px system-ui, sans-serif";
  context.textBaseline = "middle";
  const perMicrosecond = (width - LEFT) / (view.to - view.from);
  axis(context, view, perMicrosecond, width, height, color);
  tracks.forEach((track, index) => {
    const y = index * (ROW + GAP);
    context.fillStyle = color("var(--muted)");
    context.fillText(`rank ${track.rank} ${track.stream}`, 0, y + ROW / 2);
    context.fillStyle = color("var(--lane)");
    context.fillRect(LEFT, y, width - LEFT, ROW);
    for (const [start, length, label] of track.tasks) {
      const left = Math.max((start - view.from) * perMicrosecond, 0);
      const right = Math.min((start + length - view.from) * perMicrosecond, width - LEFT);
      if (right <= 0 || left >= width - LEFT) continue;
      context.fillStyle = color(taskColor(labels[label]));
      const gap = right - left > 4 ? 1 : 0;
      context.fillRect(LEFT + left, y, Math.max(right - left - gap, 0.6), ROW);
    }
  });
}

export function axis(context: CanvasRenderingContext2D, view: Span, perMicrosecond: number, width: number, height: number, color: (name: string) => string): void {
  const step = niceStep(view.to - view.from, Math.max(2, Math.floor((width - LEFT) / 110)));
  context.strokeStyle = color("var(--line)");
  context.fillStyle = color("var(--muted)");
  let free = 0; // where the last label ends: one that would stand on it is left out
  for (let tick = Math.ceil(view.from / step) * step; tick <= view.to; tick += step) {
    const x = LEFT + (tick - view.from) * perMicrosecond;
    context.beginPath();
    context.moveTo(x, 0);
    context.lineTo(x, height - AXIS + 4);
    context.stroke();
    const [words, left] = [axisTime(tick / 1e6), Math.min(x + 3, width - 50)];
    if (left < free) continue;
    context.fillText(words, left, height - AXIS / 2);
    free = left + context.measureText(words).width + 6;
  }
}

function hit(tracks: Track[], labels: TrackLabel[], view: Span, width: number, x: number, y: number): string | null {
  const track = tracks[Math.floor(y / (ROW + GAP))];
  if (track === undefined || x < LEFT) return null;
  const time = view.from + ((x - LEFT) / (width - LEFT)) * (view.to - view.from);
  const task = track.tasks.find(([start, length]) => time >= start && time <= start + length);
  if (task === undefined) return null;
  return `${labelText(labels[task[2]])}: ${duration(task[1] / 1e6)} from ${duration(task[0] / 1e6)}`;
}

export function Timeline({ variant }: { variant: Stepped }) {
  const { tracks, labels } = variant.timeline;
  const end = Math.max(1, ...tracks.flatMap((track) => track.tasks.map(([start, length]) => start + length)));
  const whole = { from: 0, to: end };
  const [view, setView] = useState<Span>(whole);
  const [hover, setHover] = useState<Hover | null>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const dragged = useRef<number | null>(null);

  useEffect(() => {
    const element = canvas.current;
    if (element === null) return;
    return paintedOnChange(element, () => draw(element, tracks, labels, view));
  }, [view, tracks, labels]);

  if (tracks.length === 0) return null;
  const groups = [...new Set(tracks.flatMap((track) => track.tasks.map((task) => taskGroup(labels[task[2]]))))];
  const timeAt = (x: number, width: number) => view.from + ((Math.max(x, LEFT) - LEFT) / (width - LEFT)) * (view.to - view.from);

  const onWheel = (event: WheelEvent) => {
    if (!event.ctrlKey && !event.shiftKey) return;
    event.preventDefault();
    const element = event.currentTarget as HTMLCanvasElement;
    setView(zoomed(view, whole, event.deltaY > 0 ? 1.25 : 0.8, timeAt(event.offsetX, element.clientWidth)));
  };
  const onKey = (event: KeyboardEvent) => {
    const next = byKey(event.key, view, whole);
    if (next !== undefined) setView(next);
  };
  const onMove = (event: PointerEvent) => {
    const element = event.currentTarget as HTMLCanvasElement;
    if (dragged.current !== null) {
      setView(moved(view, whole, ((dragged.current - event.offsetX) / (element.clientWidth - LEFT)) * (view.to - view.from)));
      dragged.current = event.offsetX;
    }
    const text = hit(tracks, labels, view, element.clientWidth, event.offsetX, event.offsetY);
    setHover(text === null ? null : { x: event.offsetX, y: event.offsetY, text });
  };

  return (
    <Section
      title={variant.timeline.ranks.length === 1 ? `The step of rank ${variant.timeline.ranks[0]}` : "The step of a few ranks"}
      note="Drag to move; w and s (or Ctrl and the wheel) zoom, a and d move, 0 shows all. The same ranks are in trace.json for ui.perfetto.dev, all of them in timeline.parquet."
    >
      <Legend items={groups.map((group) => ({ name: group, color: groupColor(group) }))} />
      <div class="timeline">
        <canvas
          ref={canvas}
          tabIndex={0}
          aria-label="Step timeline"
          style={{ height: `${heightOf(tracks)}px` }}
          onWheel={onWheel}
          onKeyDown={onKey}
          onPointerDown={(event) => { dragged.current = event.offsetX; event.currentTarget.setPointerCapture(event.pointerId); }}
          onPointerUp={() => { dragged.current = null; }}
          onPointerMove={onMove}
          onPointerLeave={() => setHover(null)}
        />
        {hover !== null && <span class="tip" style={{ left: `${hover.x + 12}px`, top: `${hover.y + 14}px` }}>{hover.text}</span>}
      </div>
    </Section>
  );
}
