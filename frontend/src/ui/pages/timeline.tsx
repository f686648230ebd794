/** Timelines of one or several runs, every rank, at any zoom; aligned at their beginnings. */

import { useEffect, useRef, useState } from "preact/hooks";
import { paintedOnChange, resolver } from "../../canvas";
import { groupColor } from "../../colors";
import { bytes, duration, whole as inWords } from "../../format";
import { Legend, Section } from "../../parts";
import { address, choose, chosen } from "../../place";
import { byKey, moved, zoomed, type Span } from "../../span";
import { axis, labelText, taskGroup } from "../../views/timeline";
import type { SliceSeen, Strips } from "../api.gen";
import { api, type Timed } from "../api";
import { useLoaded } from "../loaded";
import { drawn, type Drawn } from "../pixels";

const LEFT = 128;
const AXIS = 22;
/** Height of a lane, in pixels: where there are few they are easier to hit. */
const THIN = 6;
const THICK = 18;
const MOST_HEIGHT = 520;

/** `run`, `run:2`, or `@file` for a record that was measured; separated by commas. */
const sources = (text: string): Timed[] =>
  text.split(",").filter((each) => each !== "").map((each) => {
    if (each.startsWith("@")) return { file: each.slice(1) };
    const [run = "", variant = "0"] = each.split(":");
    return { run, variant: Number.parseInt(variant, 10) || 0 };
  });

const nameOf = (source: Timed): string => ("file" in source ? `${source.file}, measured` : `${source.run}${source.variant > 0 ? `, variant ${source.variant + 1}` : ""}`);

export function TimelinePage() {
  const listed = sources(chosen("runs") ?? "");
  const [heads] = useLoaded(() => Promise.all(listed.map(api.strips)), []);
  if (listed.length === 0) return <p class="failure">No run is named. <a href="#/">To the runs</a></p>;
  if (heads.error !== undefined) return <p class="failure">{heads.error}. <a href="#/">To the runs</a></p>;
  if (heads.value === undefined) return <p class="muted" role="status">opening {listed.length === 1 ? "the timeline" : `${listed.length} timelines`}</p>;
  return <Aligned listed={listed} heads={heads.value} />;
}

/** Records that were measured, to be laid beside what is shown. */
function Beside() {
  const [records] = useLoaded(api.records, []);
  const shown = chosen("runs") ?? "";
  const others = (records.value ?? []).filter((row) => !shown.split(",").includes(`@${row.file}`));
  if (others.length === 0) return null;
  return <p class="tools"><span class="muted">Measured, beside it:</span>{others.map((row) => <a href={address("/timeline", { runs: `${shown},@${row.file}` })}>{row.file}</a>)}</p>;
}

function Aligned({ listed, heads }: { listed: Timed[]; heads: Strips[] }) {
  const all: Span = { from: 0, to: Math.max(1e-3, ...heads.map((head) => head.end_us)) };
  const [view, set] = useState<Span>(() => seen(all));
  const setView = (next: Span) => {
    choose("from", next.from.toPrecision(9));
    choose("to", next.to.toPrecision(9));
    set(next);
  };
  const groups = [...new Set(heads.flatMap((head) => head.looks.map(taskGroup)))];
  return (
    <>
    <h1 class="spoken">Timelines of {listed.map(nameOf).join(", ")}</h1>
    <Section
      title="Every rank at any zoom"
      note="Drag to move, wheel over the axis or Ctrl and wheel to zoom; w, s, a, d and 0 do the same. A pixel's strength is the share of it that is busy, its colour that of the slice in its middle."
    >
      <Legend items={groups.map((group) => ({ name: group, color: groupColor(group) }))} />
      {listed.map((source, number) => {
        const head = heads[number];
        return head && <Lanes key={nameOf(source)} source={source} head={head} all={all} view={view} setView={setView} />;
      })}
      <Beside />
      <p class="muted">{duration(view.from / 1e6)} to {duration(view.to / 1e6)} of {duration(all.to / 1e6)}</p>
    </Section>
    </>
  );
}

function seen(all: Span): Span {
  const [from, to] = [Number.parseFloat(chosen("from") ?? ""), Number.parseFloat(chosen("to") ?? "")];
  return from >= all.from && to <= all.to * 1.000001 && from < to ? { from, to } : all;
}

interface Shown {
  source: Timed;
  head: Strips;
  all: Span;
  view: Span;
  setView: (next: Span) => void;
}

function Lanes({ source, head, all, view, setView }: Shown) {
  const lane = head.lanes.length * THICK <= MOST_HEIGHT ? THICK : THIN;
  const height = Math.min(head.lanes.length * lane, MOST_HEIGHT);
  const [first, scrollTo] = useState(0);
  const [image, setImage] = useState<Drawn>();
  const [hover, setHover] = useState<{ x: number; y: number; text: string }>();
  const canvas = useRef<HTMLCanvasElement>(null);
  const dragged = useRef<number | null>(null);
  const asked = useRef<AbortController | undefined>(undefined);
  const count = Math.ceil(height / lane);

  useEffect(() => {
    const element = canvas.current;
    if (element === null) return;
    const ended = new AbortController();
    const pixels = Math.max(1, Math.round(element.clientWidth - LEFT));
    api.window(source, { first, count, pixels, from_us: view.from, to_us: view.to }, ended.signal).then(
      (answer) => setImage(drawn(answer, head.looks, element, view.from, view.to)),
      () => undefined,
    );
    return () => ended.abort();
  }, [view.from, view.to, first, count, nameOf(source)]);
  useEffect(() => {
    const element = canvas.current;
    if (element !== null) return paintedOnChange(element, () => paint(element, head, image, view, first, lane, height));
    return undefined;
  }, [image, view, first]);

  const timeAt = (x: number, width: number) => view.from + ((Math.max(x, LEFT) - LEFT) / (width - LEFT)) * (view.to - view.from);
  const onWheel = (event: WheelEvent) => {
    const element = event.currentTarget as HTMLCanvasElement;
    const zooms = event.ctrlKey || event.shiftKey || event.offsetY > height;
    const scrolls = !zooms && head.lanes.length > count;
    if (!zooms && !scrolls) return;
    event.preventDefault();
    if (zooms) setView(zoomed(view, all, event.deltaY > 0 ? 1.25 : 0.8, timeAt(event.offsetX, element.clientWidth)));
    else scrollTo(Math.min(Math.max(first + Math.sign(event.deltaY) * 4, 0), head.lanes.length - count));
  };
  const onKey = (event: KeyboardEvent) => {
    const next = byKey(event.key, view, all);
    const down = { ArrowDown: 4, ArrowUp: -4, PageDown: count, PageUp: -count }[event.key];
    if (next !== undefined) setView(next);
    else if (down !== undefined) scrollTo(Math.min(Math.max(first + down, 0), Math.max(head.lanes.length - count, 0)));
    else return;
    event.preventDefault();
  };
  const onMove = (event: PointerEvent) => {
    const element = event.currentTarget as HTMLCanvasElement;
    const { offsetX: x, offsetY: y } = event;
    if (dragged.current !== null) {
      setView(moved(view, all, ((dragged.current - x) / (element.clientWidth - LEFT)) * (view.to - view.from)));
      dragged.current = x;
      return;
    }
    asked.current?.abort();
    setHover(undefined);
    const at = first + Math.floor(y / lane);
    if (x < LEFT || y > height || at >= head.lanes.length) return;
    asked.current = new AbortController();
    api.slice(source, at, timeAt(x, element.clientWidth), asked.current.signal).then(
      (found) => found.look !== null && found.look !== undefined && setHover({ x, y, text: inFull(found, head, at) }),
      () => undefined,
    );
  };
  return (
    <>
      <h3>{nameOf(source)} <small>{inWords(head.slices)} slices, {inWords(head.lanes.length)} lanes, {duration(head.end_us / 1e6)}</small></h3>
      <div class="timeline">
        <canvas
          ref={canvas}
          tabIndex={0}
          aria-label={`Timeline of ${nameOf(source)}`}
          style={{ height: `${height + AXIS}px` }}
          onWheel={onWheel}
          onKeyDown={onKey}
          onPointerDown={(event) => { dragged.current = event.offsetX; event.currentTarget.setPointerCapture(event.pointerId); }}
          onPointerUp={() => { dragged.current = null; }}
          onPointerMove={onMove}
          onPointerLeave={() => { asked.current?.abort(); setHover(undefined); }}
        />
        {hover && <div class="tip" style={{ left: `${hover.x + 12}px`, top: `${hover.y + 12}px` }}>{hover.text}</div>}
      </div>
      {head.lanes.length > count && (
        <label class="name">Lanes from <input type="range" min={0} max={head.lanes.length - count} value={first} onInput={(event) => scrollTo(Number(event.currentTarget.value))} /></label>
      )}
    </>
  );
}

function inFull(found: SliceSeen, head: Strips, lane: number): string {
  const [start, end] = [found.start_us ?? 0, found.end_us ?? 0];
  const moved = found.bytes ? `, ${bytes(found.bytes)}` : "";
  const alone = found.alone_us ? `, ${duration(found.alone_us / 1e6)} with the network to itself` : "";
  const slowed = found.slowed_us ? `, slowed by ${duration(found.slowed_us / 1e6)}` : "";
  return `rank ${head.lanes[lane]?.rank} ${head.lanes[lane]?.name}: ${labelText(head.looks[found.look ?? 0])}, ${duration((end - start) / 1e6)} from ${duration(start / 1e6)}${moved}${alone}${slowed}`;
}

/** What is there of the window at once, stretched to the new view until the sharp one comes. */
function paint(canvas: HTMLCanvasElement, head: Strips, image: Drawn | undefined, view: Span, first: number, lane: number, height: number): void {
  const scale = devicePixelRatio;
  const width = canvas.clientWidth;
  canvas.width = width * scale;
  canvas.height = (height + AXIS) * scale;
  const context = canvas.getContext("2d");
  if (context === null) return;
  const color = resolver(canvas);
  context.scale(scale, scale);
  context.fillStyle = color("var(--lane)");
  context.fillRect(LEFT, 0, width - LEFT, height);
  const perMicrosecond = (width - LEFT) / (view.to - view.from);
  if (image !== undefined && image.count > 0) {
    context.save();
    context.beginPath();
    context.rect(LEFT, 0, width - LEFT, height);
    context.clip();
    context.imageSmoothingEnabled = false;
    const left = LEFT + (image.from - view.from) * perMicrosecond;
    context.drawImage(image.image, left, (image.first - first) * lane, (image.to - image.from) * perMicrosecond, image.count * lane);
    context.restore();
  }
  context.font = "12px system-ui, sans-serif";
  context.textBaseline = "middle";
  axis(context, view, perMicrosecond, width, height + AXIS, color);
  context.fillStyle = color("var(--muted)");
  names(context, head, first, lane, height);
}

/** A name a lane where there is room, else one a rank. */
function names(context: CanvasRenderingContext2D, head: Strips, first: number, lane: number, height: number): void {
  let next = 0;
  for (let place = 0; place * lane < height; place++) {
    const each = head.lanes[first + place];
    const fresh = place === 0 || head.lanes[first + place - 1]?.rank !== each?.rank;
    if (each === undefined || place * lane < next || (lane < 12 && !fresh)) continue;
    context.fillText(lane < 12 ? `rank ${each.rank}` : `rank ${each.rank} ${each.name}`, 0, place * lane + lane / 2 + (lane < 12 ? 3 : 0));
    next = place * lane + 13;
  }
}
