import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { paintedOnChange, resolver } from "../canvas";
import { arrow, bytes, microseconds, percent, tick, whole } from "../format";
import type { PacketFigures, QueueRow } from "../result.gen";
import { ButtonRow, Section, Table } from "../parts";
import { linear } from "../scales";

type QueueSamples = NonNullable<PacketFigures["queues"]>;

interface Metric {
  name: string;
  of: (row: QueueRow) => number[] | undefined;
  show: (value: number) => string;
  /** Where the scale ends; the greatest value where it is open. */
  full?: number;
}

const METRICS: Metric[] = [
  { name: "queue depth", of: (row) => row.depth_bytes, show: bytes },
  { name: "utilization", of: (row) => row.utilization, show: (value) => percent(value), full: 1 },
  { name: "marks", of: (row) => row.marks, show: whole },
  { name: "share paused", of: (row) => row.paused_share, show: (value) => percent(value), full: 1 },
];

const ROW = 15;
const AXIS = 24;
const FEW = 24;
const STEPS = 64;
const STOPS = ["--heat-0", "--heat-1", "--heat-2", "--heat-3"];

const peak = (values: number[] | undefined): number => (values ?? []).reduce((most, value) => Math.max(most, value), 0);
const mean = (values: number[]): number => values.reduce((sum, value) => sum + value, 0) / Math.max(values.length, 1);

/** `STEPS` colours from nothing to all, through the stops of the page's theme. */
function ramp(color: (name: string) => string): string[] {
  const stops = STOPS.map((name) => channels(color(`var(${name})`)));
  return Array.from({ length: STEPS }, (_, index) => {
    const place = (index / (STEPS - 1)) * (stops.length - 1);
    const at = Math.min(Math.floor(place), stops.length - 2);
    const [from, to] = [stops[at] ?? [], stops[at + 1] ?? []];
    return `rgb(${from.map((value, channel) => Math.round(value + ((to[channel] ?? value) - value) * (place - at))).join(" ")})`;
  });
}

const channels = (hex: string): number[] => [1, 3, 5].map((at) => Number.parseInt(hex.slice(at, at + 2), 16));

const leftOf = (width: number): number => (width < 560 ? 108 : 156);

interface Drawing {
  rows: QueueRow[];
  time: number[];
  metric: Metric;
  most: number;
}

function draw(canvas: HTMLCanvasElement, { rows, time, metric, most }: Drawing): void {
  const width = canvas.clientWidth;
  const height = rows.length * ROW + AXIS;
  canvas.width = width * devicePixelRatio;
  canvas.height = height * devicePixelRatio;
  const context = canvas.getContext("2d");
  if (context === null) return;
  context.scale(devicePixelRatio, devicePixelRatio);
  context.font = "12px system-ui, sans-serif";
  context.textBaseline = "middle";
  const color = resolver(canvas);
  const heat = ramp(color);
  const left = leftOf(width);
  const columns = Math.min(time.length, Math.floor(width - left));
  rows.forEach((row, index) => {
    context.fillStyle = color("var(--ink)");
    context.fillText(shortened(context, arrow(row.link), left - 8), 0, index * ROW + ROW / 2);
    const values = metric.of(row) ?? [];
    for (let column = 0; column < columns; column++) {
      const value = peak(values.slice(Math.floor((column * time.length) / columns), Math.floor(((column + 1) * time.length) / columns)));
      const from = left + Math.round((column * (width - left)) / columns);
      const to = left + Math.round(((column + 1) * (width - left)) / columns);
      context.fillStyle = heat[Math.round(Math.min(value / most, 1) * (STEPS - 1))] ?? "";
      context.fillRect(from, index * ROW, to - from, ROW - 1);
    }
  });
  axis(context, time, left, width, rows.length * ROW, color("var(--muted)"));
}

function shortened(context: CanvasRenderingContext2D, text: string, width: number): string {
  if (context.measureText(text).width <= width) return text;
  let length = text.length;
  while (length > 1 && context.measureText(`${text.slice(0, length)}…`).width > width) length--;
  return `${text.slice(0, length)}…`;
}

function axis(context: CanvasRenderingContext2D, time: number[], left: number, width: number, top: number, color: string): void {
  const [from, to] = [time[0] ?? 0, time[time.length - 1] ?? 1];
  const scale = linear(from, to, Math.max(2, Math.floor((width - left) / 90)));
  context.fillStyle = color;
  for (const place of scale.ticks) {
    const x = left + scale.at(place) * (width - left);
    const text = tick(place);
    context.fillRect(x - 0.5, top, 1, 4);
    const size = context.measureText(text).width;
    context.fillText(text, Math.min(Math.max(x - size / 2, left), width - size), top + 14);
  }
}

/** Links named without the word that all their ends begin with, such as the name of the one network. */
function plainlyNamed(rows: QueueRow[]): QueueRow[] {
  const ends = (row: QueueRow): string[] => arrow(row.link).split("→").map((end) => end.trim());
  const word = `${rows[0]?.link.split(" ")[0]} `;
  const shared = rows.every((row) => ends(row).every((end) => end.startsWith(word)));
  return rows.map((row) => ({ ...row, link: ends(row).map((end) => (shared ? end.slice(word.length) : end)).join("→") }));
}

export function Queues({ queues: given }: { queues: QueueSamples }) {
  const queues = useMemo(() => ({ ...given, rows: plainlyNamed(given.rows) }), [given]);
  const metrics = METRICS.filter((metric) => queues.rows.some((row) => peak(metric.of(row)) > 0));
  const [chosen, choose] = useState(0);
  const [all, setAll] = useState(false);
  const metric = metrics[chosen] ?? METRICS[0];
  if (metric === undefined) return null;
  const heat = new Map(queues.rows.map((row) => [row, [peak(metric.of(row)), mean(metric.of(row) ?? [])] as const]));
  const hotter = (a: QueueRow, b: QueueRow, by: 0 | 1): number => (heat.get(b)?.[by] ?? 0) - (heat.get(a)?.[by] ?? 0);
  const rows = [...queues.rows].sort((a, b) => hotter(a, b, 0) || hotter(a, b, 1));
  const most = metric.full ?? (Math.max(...rows.map((row) => peak(metric.of(row)))) || 1);
  return (
    <Section
      title="Queues over time"
      note={`One line a link, the hottest first; ${queues.rows.length} links were sampled ${queues.time_us.length} times. Where several samples fall on one pixel the greatest is drawn.`}
    >
      {metrics.length > 1 && <ButtonRow label="Colour shows" names={metrics.map((each) => each.name)} chosen={chosen} choose={choose} />}
      <div class="scale">
        <span>{metric.show(0)}</span>
        <i style={{ background: `linear-gradient(to right, ${STOPS.map((name) => `var(${name})`).join(",")})` }} />
        <span>{metric.show(most)}</span>
      </div>
      <HeatMap rows={all ? rows : rows.slice(0, FEW)} time={queues.time_us} metric={metric} most={most} />
      {rows.length > FEW && <button class="more" onClick={() => setAll(!all)}>{all ? `Only the hottest ${FEW}` : `All ${rows.length} links`}</button>}
      <details>
        <summary>The same as numbers</summary>
        <Numbers rows={rows} time={queues.time_us} />
      </details>
    </Section>
  );
}

function HeatMap(drawing: Drawing) {
  const { rows, time, metric, most } = drawing;
  const canvas = useRef<HTMLCanvasElement>(null);
  const [hover, setHover] = useState<{ x: number; y: number; text: string } | null>(null);
  useEffect(() => {
    const element = canvas.current;
    return element === null ? undefined : paintedOnChange(element, () => draw(element, drawing));
  }, [rows.length, time, metric, most]);
  const onMove = (event: PointerEvent) => {
    const width = (event.currentTarget as HTMLCanvasElement).clientWidth;
    const row = rows[Math.floor(event.offsetY / ROW)];
    const at = Math.floor(((event.offsetX - leftOf(width)) / (width - leftOf(width))) * time.length);
    const value = row === undefined ? undefined : metric.of(row)?.[at];
    if (row === undefined || value === undefined) return setHover(null);
    setHover({ x: Math.min(event.offsetX + 12, width - 190), y: event.offsetY + 14, text: `${arrow(row.link)} at ${microseconds(time[at] ?? 0)}: ${metric.show(value)}` });
  };
  return (
    <div class="timeline">
      <canvas
        ref={canvas}
        class="plain"
        style={{ height: `${rows.length * ROW + AXIS}px` }}
        aria-label={`${metric.name} of the hottest links over time`}
        onPointerMove={onMove}
        onPointerLeave={() => setHover(null)}
      />
      {hover !== null && <span class="tip" style={{ left: `${hover.x}px`, top: `${hover.y}px` }}>{hover.text}</span>}
    </div>
  );
}

function Numbers({ rows, time }: { rows: QueueRow[]; time: number[] }) {
  const optional = (values: number[] | undefined, show: (value: number) => string, of: (values: number[]) => number) =>
    values === undefined ? "—" : show(of(values));
  return (
    <Table
      rows={rows}
      columns={[
        { head: "link", text: true, cell: (row) => arrow(row.link) },
        { head: "tier", text: true, by: (row) => row.tier },
        { head: "deepest", cell: (row) => bytes(peak(row.depth_bytes)) },
        { head: "at", cell: (row) => microseconds(time[row.depth_bytes.indexOf(peak(row.depth_bytes))] ?? 0) },
        { head: "mean depth", cell: (row) => bytes(mean(row.depth_bytes)) },
        { head: "mean utilization", cell: (row) => optional(row.utilization, percent, mean) },
        { head: "paused", cell: (row) => optional(row.paused_share, percent, mean) },
        { head: "marks", cell: (row) => optional(row.marks, whole, (values) => values.reduce((sum, value) => sum + value, 0)) },
      ]}
    />
  );
}
