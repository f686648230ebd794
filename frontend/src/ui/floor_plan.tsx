/** The hall on a canvas: moved and zoomed by pointer and keys, at the place that the address names. */

import { useEffect, useRef, useState } from "preact/hooks";
import { paintedOnChange, resolver } from "../canvas";
import { percent, power } from "../format";
import { choose, chosen } from "../place";
import { around, fitted, heightFor, hit, paint, type Camera, type Heat, type Inks, type Lit, type Scene } from "./floor_paint";
import { at, type Cabling, type Hall } from "./hall";

const CLICK_PX = 4;
/** So long after the last movement the address follows. */
const SETTLED_MS = 250;

export const ROLES: Record<string, string> = { server: "var(--cool)", leaf: "var(--bubble)", spine: "var(--contention)", core: "var(--straggler)", storage: "var(--data)", memory: "var(--latency)" };

interface PlanProps {
  hall: Hall;
  cabling: Cabling | undefined;
  heat: Heat;
  device: number | undefined;
  choice: (device: number | undefined) => void;
  /** Devices to have in sight; another array moves the view anew. */
  goTo: readonly number[] | undefined;
  lit: Lit | undefined;
  found: ReadonlyMap<number, number>;
  /** Load at the hot end. */
  most: number;
  /** Changes with the loads that are shown. */
  moment: number | undefined;
}

/** Where the address says that one looked: middle and scale, in racks. */
function seen(hall: Hall, width: number, height: number): Camera {
  const [x, y, scale] = (chosen("view") ?? "").split(",").map(Number);
  if (x === undefined || y === undefined || scale === undefined || !(scale > 0) || Number.isNaN(x + y)) return fitted(hall, width, height);
  return { scale, x: width / 2 - x * scale, y: height / 2 - y * scale };
}

const widened = (camera: Camera, by: number): Camera => (by === 1 ? camera : { scale: camera.scale * by, x: camera.x * by, y: camera.y * by });

export function Plan({ hall, cabling, heat, device, choice, goTo, lit, found, most, moment }: PlanProps) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const camera = useRef<Camera | undefined>(undefined);
  /** Of the canvas when the camera was made: what is in sight stays in sight on a wider or narrower one, and on paper. */
  const width = useRef<number | undefined>(undefined);
  const press = useRef<{ x: number; y: number; moved: number } | undefined>(undefined);
  const settled = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  const [hover, setHover] = useState<{ x: number; y: number; text: string }>();
  const again = useRef<() => void>(() => undefined);
  const [height, setHeight] = useState(400);
  const scene = (element: HTMLCanvasElement): Scene => {
    const wide = Math.max(element.clientWidth, 1);
    camera.current = camera.current === undefined ? seen(hall, wide, heightFor(hall, wide)) : widened(camera.current, wide / (width.current ?? wide));
    width.current = wide;
    return { hall, cabling, camera: camera.current, heat, chosen: device, lit, found, most };
  };
  const look = (element: HTMLCanvasElement, next: Camera | undefined) => {
    camera.current = next ?? fitted(hall, element.clientWidth, height);
    again.current();
    clearTimeout(settled.current);
    settled.current = setTimeout(() => {
      const { scale, x, y } = camera.current ?? fitted(hall, element.clientWidth, height);
      const middle = [(element.clientWidth / 2 - x) / scale, (height / 2 - y) / scale, scale].map((value) => Number(value.toPrecision(5)));
      choose("view", next === undefined ? null : middle.join(","));
    }, SETTLED_MS);
  };
  useEffect(() => () => clearTimeout(settled.current), []);
  useEffect(() => {
    const element = canvas.current;
    if (element === null) return;
    setHeight(heightFor(hall, element.clientWidth));
    let frame = 0;
    const draw = () => {
      const ratio = devicePixelRatio;
      element.width = element.clientWidth * ratio;
      element.height = height * ratio;
      const context = element.getContext("2d");
      if (context === null) return;
      context.scale(ratio, ratio);
      paint(context, scene(element), element.clientWidth, height, inksOf(element));
    };
    again.current = () => {
      cancelAnimationFrame(frame);
      frame = requestAnimationFrame(draw);
    };
    return paintedOnChange(element, draw);
  }, [hall, cabling, heat, device, height, lit, found, most, moment]);
  useEffect(() => {
    const element = canvas.current;
    if (element === null || goTo === undefined || goTo.length === 0) return;
    look(element, around(hall, goTo, element.clientWidth, heightFor(hall, element.clientWidth)));
  }, [goTo]);

  const zoom = (element: HTMLCanvasElement, factor: number, x: number, y: number) => {
    const now = scene(element).camera;
    const scale = Math.min(Math.max(now.scale * factor, fitted(hall, element.clientWidth, height).scale * 0.8), 1500);
    look(element, { scale, x: x - ((x - now.x) * scale) / now.scale, y: y - ((y - now.y) * scale) / now.scale });
  };
  const move = (element: HTMLCanvasElement, dx: number, dy: number) => {
    const now = scene(element).camera;
    look(element, { ...now, x: now.x + dx, y: now.y + dy });
  };
  const onKey = (event: KeyboardEvent) => {
    const element = event.currentTarget as HTMLCanvasElement;
    const moves: Record<string, [number, number]> = { ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60] };
    const by = moves[event.key];
    if (by !== undefined) move(element, ...by);
    else if (event.key === "+" || event.key === "w") zoom(element, 1.4, element.clientWidth / 2, height / 2);
    else if (event.key === "-" || event.key === "s") zoom(element, 1 / 1.4, element.clientWidth / 2, height / 2);
    else if (event.key === "0") look(element, undefined);
    else return;
    event.preventDefault();
  };
  const onMove = (event: PointerEvent) => {
    const element = event.currentTarget as HTMLCanvasElement;
    const down = press.current;
    if (down !== undefined) {
      press.current = { x: event.offsetX, y: event.offsetY, moved: down.moved + Math.abs(event.offsetX - down.x) + Math.abs(event.offsetY - down.y) };
      move(element, event.offsetX - down.x, event.offsetY - down.y);
      return;
    }
    const found = hit(scene(element), event.offsetX, event.offsetY);
    setHover(found && { x: event.offsetX, y: event.offsetY, text: tip(hall, cabling, found) });
  };
  const onUp = (event: PointerEvent) => {
    const clicked = (press.current?.moved ?? CLICK_PX) < CLICK_PX;
    press.current = undefined;
    if (!clicked) return;
    const element = event.currentTarget as HTMLCanvasElement;
    const found = hit(scene(element), event.offsetX, event.offsetY);
    if (found?.device !== undefined) choice(found.device);
    else if (found !== undefined) zoom(element, Math.max(80 / scene(element).camera.scale, 1), event.offsetX, event.offsetY);
    else choice(undefined);
  };
  return (
    <div class="timeline">
      <canvas
        ref={canvas}
        tabIndex={0}
        role="img"
        aria-label={`Floor plan: ${hall.row.length} racks in ${hall.rows} rows; arrows move, + and - zoom, 0 shows all`}
        style={{ height: `${height}px` }}
        onWheel={(event) => { event.preventDefault(); zoom(event.currentTarget as HTMLCanvasElement, event.deltaY > 0 ? 0.8 : 1.25, event.offsetX, event.offsetY); }}
        onKeyDown={onKey}
        onPointerDown={(event) => { press.current = { x: event.offsetX, y: event.offsetY, moved: 0 }; event.currentTarget.setPointerCapture(event.pointerId); }}
        onPointerUp={onUp}
        onPointerMove={onMove}
        onPointerLeave={() => setHover(undefined)}
      />
      {hover && <div class="tip" style={{ left: `${hover.x + 12}px`, top: `${hover.y + 12}px` }}>{hover.text}</div>}
    </div>
  );
}

function inksOf(element: HTMLElement): Inks {
  const color = resolver(element);
  const [cool, hot, found] = [color("var(--cool)"), color("var(--hot)"), color("var(--latency)")];
  const steps = Array.from({ length: 33 }, (_, step) => `color-mix(in oklab, ${hot} ${((100 * step) / 32).toFixed(1)}%, ${cool})`);
  return {
    lane: color("var(--lane)"),
    line: color("var(--line)"),
    ink: color("var(--ink)"),
    muted: color("var(--muted)"),
    accent: color("var(--accent)"),
    found: (share) => `color-mix(in oklab, ${hot} ${(100 * Math.sqrt(Math.min(Math.max(share, 0), 1))).toFixed(0)}%, ${found})`,
    hot,
    panel: color("var(--panel)"),
    heat: (share) => steps[Math.round(Math.min(Math.max(share, 0), 1) * 32)] ?? cool,
    role: (role) => color(ROLES[role] ?? "var(--other)"),
  };
}

function tip(hall: Hall, cabling: Cabling | undefined, found: { rack: number; device: number | undefined }): string {
  const busiest = (load: number | undefined) => (load === undefined || load < 0 ? "" : `, busiest cable ${percent(load)}`);
  const place = `rack ${hall.rackName(found.rack)}`;
  if (found.device === undefined) return `${place}: ${hall.inside[found.rack]?.length ?? 0} devices, ${power(at(hall.power, found.rack))}${busiest(cabling?.rackLoad[found.rack])}`;
  const { head } = hall;
  return `${head.names[found.device]}: ${head.boxes[at(hall.box, found.device)]}, ${place} unit ${at(hall.unit, found.device)}${busiest(cabling?.deviceLoad[found.device])}`;
}

