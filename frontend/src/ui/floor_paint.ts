/** The hall as it is painted: racks from afar, what stands in them nearer by, ports from close. */

import { at, type Cabling, type Hall } from "./hall";

export interface Camera {
  /** Pixels a rack is wide. */
  scale: number;
  x: number;
  y: number;
}

export type Heat = "load" | "findings" | "power" | "role";

/** What is lit: a finding, or a part that is named. */
export interface Lit {
  cables: readonly number[];
  devices: readonly number[];
}

export interface Scene {
  hall: Hall;
  cabling: Cabling | undefined;
  camera: Camera;
  heat: Heat;
  /** Whose cables are drawn. */
  chosen: number | undefined;
  lit: Lit | undefined;
  /** Devices that something was found at, and its share of the most expensive finding. */
  found: ReadonlyMap<number, number>;
  /** Load at the hot end of the scale. */
  most: number;
}

export interface Inks {
  lane: string;
  line: string;
  ink: string;
  muted: string;
  accent: string;
  heat: (share: number) => string;
  found: (share: number) => string;
  hot: string;
  panel: string;
  role: (role: string) => string;
}

const NEAR = 26;
const NAMED = 70;
const PORTS = 260;
const MOST_LINES = 600;

/** Of the canvas: as high as the hall needs, within bounds. */
export function heightFor(hall: Hall, width: number): number {
  const scale = Math.min((width - 24) / hall.wide, 140);
  return Math.round(Math.min(Math.max(hall.high * scale + 40, 260), 560));
}

export function fitted(hall: Hall, width: number, height: number): Camera {
  const { wide, high } = hall;
  const scale = Math.max(0.5, Math.min((width - 24) / wide, (height - 24) / high, 140));
  return { scale, x: (width - wide * scale) / 2, y: (height - high * scale) / 2 };
}

/** A rack's left, top, width and height in pixels. */
function box({ hall, camera }: Scene, rack: number): [number, number, number, number] {
  const [x, y] = hall.place(rack);
  return [camera.x + x * camera.scale, camera.y + y * camera.scale, camera.scale * 0.9, camera.scale * hall.head.rack_depth];
}

/** A device's box within its rack, seen from the front. */
export function front(scene: Scene, device: number): [number, number, number, number] {
  const { hall } = scene;
  const [left, top, width, height] = box(scene, at(hall.rack, device));
  const unit = height / hall.head.rack_units;
  const upper = at(hall.unit, device) - 1 + at(hall.height, device);
  return [left, top + height - upper * unit, width, at(hall.height, device) * unit];
}

export function hit(scene: Scene, x: number, y: number): { rack: number; device: number | undefined } | undefined {
  const { hall, camera } = scene;
  for (let rack = 0; rack < hall.row.length; rack++) {
    const [left, top, width, height] = box(scene, rack);
    if (x < left || x > left + width || y < top || y > top + height) continue;
    const device = hall.inside[rack]?.find((each) => { const [, upper, , high] = front(scene, each); return y >= upper && y < upper + high; });
    return { rack, device: camera.scale >= NEAR ? device : undefined };
  }
  return undefined;
}

export function paint(context: CanvasRenderingContext2D, scene: Scene, width: number, height: number, inks: Inks): void {
  context.clearRect(0, 0, width, height);
  const { hall, camera } = scene;
  context.font = "11px system-ui, sans-serif";
  context.textBaseline = "middle";
  for (let rack = 0; rack < hall.row.length; rack++) {
    const [left, top, wide, high] = box(scene, rack);
    if (left > width || top > height || left + wide < 0 || top + high < 0) continue;
    context.fillStyle = camera.scale >= NEAR ? inks.lane : rackInk(scene, rack, inks);
    context.fillRect(left, top, Math.max(wide, 0.8), Math.max(high, 0.8));
    if (camera.scale >= NEAR) for (const device of hall.inside[rack] ?? []) paintDevice(context, scene, device, inks);
    if (camera.scale >= NEAR) {
      context.fillStyle = inks.muted;
      context.fillText(hall.rackName(rack), left, top - 8, wide);
    }
  }
  if (scene.chosen !== undefined) lines(context, scene, scene.chosen, inks);
  if (scene.lit !== undefined) light(context, scene, scene.lit, inks);
}

function rackInk(scene: Scene, rack: number, inks: Inks): string {
  const { hall, cabling, heat } = scene;
  if (heat === "power") return inks.heat(at(hall.power, rack) / Math.max(hall.mostPower, 1));
  if (heat === "load" && cabling !== undefined && at(cabling.rackLoad, rack) >= 0) return inks.heat(at(cabling.rackLoad, rack) / scene.most);
  const worst = heat === "findings" ? Math.max(-1, ...(hall.inside[rack] ?? []).map((device) => scene.found.get(device) ?? -1)) : -1;
  if (heat === "findings") return worst < 0 ? inks.lane : inks.found(worst);
  const first = hall.inside[rack]?.[0];
  return inks.role(first === undefined ? "" : (hall.head.roles[at(hall.role, first)] ?? ""));
}

function deviceInk(scene: Scene, device: number, inks: Inks): string {
  const { hall, cabling, heat } = scene;
  const share = scene.found.get(device);
  if (heat === "findings") return share === undefined ? inks.line : inks.found(share);
  if (heat === "power") return inks.heat(at(hall.draw, device) / Math.max(hall.mostDraw, 1));
  if (heat === "load" && cabling !== undefined && at(cabling.deviceLoad, device) >= 0) return inks.heat(at(cabling.deviceLoad, device) / scene.most);
  return inks.role(hall.head.roles[at(hall.role, device)] ?? "");
}

function paintDevice(context: CanvasRenderingContext2D, scene: Scene, device: number, inks: Inks): void {
  const [left, top, wide, high] = front(scene, device);
  context.fillStyle = deviceInk(scene, device, inks);
  context.fillRect(left + 1, top + 0.5, wide - 2, Math.max(high - 1, 0.5));
  if (device === scene.chosen) {
    context.strokeStyle = inks.accent;
    context.lineWidth = 2;
    context.strokeRect(left, top, wide, high);
  }
  if (scene.camera.scale >= PORTS && scene.cabling !== undefined) ports(context, scene, device, inks);
  else if (scene.camera.scale >= NAMED && high >= 9) {
    const share = scene.heat === "findings" ? (scene.found.get(device) ?? 0) * 3 : scene.heat === "load" ? at(scene.cabling?.deviceLoad ?? [], device) / scene.most : 0;
    context.fillStyle = share > 0.6 ? inks.panel : inks.ink;
    context.fillText(scene.hall.head.names[device] ?? "", left + 4, top + high / 2, wide - 8);
  }
}

/** Ports in order, each with the load of its cable. */
function ports(context: CanvasRenderingContext2D, scene: Scene, device: number, inks: Inks): void {
  const [left, top, wide, high] = front(scene, device);
  const cables = scene.cabling?.of(device) ?? [];
  const each = Math.min((wide - 70) / Math.max(cables.length, 1), high * 0.6);
  cables.forEach((cable, number) => {
    const load = at(scene.cabling?.load ?? [], cable.row);
    context.fillStyle = load >= 0 ? inks.heat(load / scene.most) : inks.line;
    context.strokeStyle = inks.line;
    context.lineWidth = 0.5;
    context.fillRect(left + 64 + number * each, top + high * 0.2, each * 0.8, high * 0.6);
    context.strokeRect(left + 64 + number * each, top + high * 0.2, each * 0.8, high * 0.6);
  });
  context.fillStyle = inks.ink;
  context.fillText(scene.hall.head.names[device] ?? "", left + 4, top + high / 2, 58);
}

function lines(context: CanvasRenderingContext2D, scene: Scene, device: number, inks: Inks): void {
  const cables = scene.cabling?.of(device) ?? [];
  const [fromX, fromY] = middle(front(scene, device));
  context.lineWidth = 1;
  for (const cable of cables.slice(0, MOST_LINES)) {
    const [toX, toY] = middle(front(scene, cable.peer));
    const load = at(scene.cabling?.load ?? [], cable.row);
    context.strokeStyle = load >= 0 ? inks.heat(load / scene.most) : inks.accent;
    context.beginPath();
    context.moveTo(fromX, fromY);
    context.lineTo(toX, fromY);
    context.lineTo(toX, toY);
    context.stroke();
  }
}

/** Cables over everything else, with the boxes at their ends. */
function light(context: CanvasRenderingContext2D, scene: Scene, lit: Lit, inks: Inks): void {
  context.strokeStyle = inks.hot;
  context.lineWidth = 3;
  const devices = new Set(lit.devices);
  for (const row of lit.cables.slice(0, MOST_LINES)) {
    const ends = scene.cabling?.ends(row);
    if (ends === undefined) break;
    const [[fromX, fromY], [toX, toY]] = ends.map((device) => middle(front(scene, device))) as [[number, number], [number, number]];
    context.beginPath();
    context.moveTo(fromX, fromY);
    context.lineTo(toX, fromY);
    context.lineTo(toX, toY);
    context.stroke();
    for (const device of ends) devices.add(device);
  }
  for (const device of devices) {
    const [left, top, wide, high] = front(scene, device);
    context.strokeRect(left, top, wide, Math.max(high, 2));
  }
}

const middle = ([left, top, wide, high]: [number, number, number, number]): [number, number] => [left + wide / 2, top + high / 2];

/** A camera that has all of some devices in it. */
export function around(hall: Hall, devices: readonly number[], width: number, height: number): Camera {
  const all = fitted(hall, width, height);
  if (all.scale >= NAMED) return all;
  const places = devices.map((device) => hall.place(at(hall.rack, device)));
  const [left, right] = [Math.min(...places.map(([x]) => x)), 1 + Math.max(...places.map(([x]) => x))];
  const [top, bottom] = [Math.min(...places.map(([, y]) => y)), hall.head.rack_depth + Math.max(...places.map(([, y]) => y))];
  const scale = Math.min(Math.max(Math.min((width - 60) / (right - left), (height - 60) / (bottom - top), 150), 6), 150);
  return { scale, x: width / 2 - ((left + right) / 2) * scale, y: height / 2 - ((top + bottom) / 2) * scale };
}
