/** The hall of a run's cluster: from the floor to the port, with the load of every cable; a fault is a click away. */

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { paintedOnChange, resolver } from "../../canvas";
import { percent, power, whole as inWords } from "../../format";
import { ButtonRow, Legend, Section, Table } from "../../parts";
import { address, choose, chosen } from "../../place";
import { api, type Place } from "../api";
import { fitted, heightFor, hit, paint, type Camera, type Heat, type Inks, type Scene } from "../floor_paint";
import { at, Cabling, Hall } from "../hall";
import { useLoaded } from "../loaded";

const HEATS: readonly Heat[] = ["load", "power", "role"];
const MOST_PORTS = 128;
const CLICK_PX = 4;

/** The run that the address names, or the scenario file. */
async function place(): Promise<Place> {
  const file = chosen("file");
  if (file !== null) return { file, text: (await api.read(file)).text };
  return { run: chosen("run") ?? "", variant: Number.parseInt(chosen("variant") ?? "0", 10) || 0 };
}

export function FloorPage() {
  const [found] = useLoaded(async () => { const of = await place(); return { of, hall: new Hall(await api.hall(of)) }; }, []);
  if (found.error !== undefined) return <p class="failure">{found.error}. <a href="#/">To the runs</a></p>;
  if (found.value === undefined) return <p class="muted" role="status">drawing the hall</p>;
  return <Floor of={found.value.of} hall={found.value.hall} />;
}

function Floor({ of, hall }: { of: Place; hall: Hall }) {
  const [cabling] = useLoaded(async () => new Cabling(await api.cables(of), hall), [hall]);
  const [heat, setHeat] = useState<Heat>((chosen("heat") as Heat | null) ?? "load");
  const [device, setDevice] = useState<number | undefined>(() => named(hall, chosen("device")));
  const [goTo, setGoTo] = useState<number | undefined>(device);
  const choice = (next: number | undefined) => {
    setDevice(next);
    choose("device", next === undefined ? null : (hall.head.names[next] ?? null));
  };
  const { head } = hall;
  return (
    <>
      <h1>The hall of {"run" in of ? of.run : of.file}</h1>
      <p class="muted">
        {inWords(head.servers * head.accelerators_per_server)} accelerators in {inWords(head.servers)} servers, {inWords(head.names.length - head.servers)} other devices,{" "}
        {inWords(hall.row.length)} racks, {inWords(head.cables)} cables. Laid out by the rules of `railyard deploy`.
      </p>
      {head.remarks.map((remark) => <p class="fault">{remark}</p>)}
      <p class="tools">
        <ButtonRow label="Colour by" names={[...HEATS]} chosen={HEATS.indexOf(heat)} choose={(index) => { setHeat(HEATS[index] ?? "load"); choose("heat", HEATS[index] ?? null); }} />
        <Find hall={hall} found={(one) => { choice(one); setGoTo(one); }} />
        {cabling.value === undefined && cabling.error === undefined && <span class="muted" role="status">reading {inWords(head.cables)} cables</span>}
        {cabling.value?.loaded === false && <span class="muted">{"run" in of ? "This run counted no bytes on links" : "Not run yet"}: nothing has a load.</span>}
      </p>
      <Key hall={hall} cabling={cabling.value} heat={heat} />
      <Plan hall={hall} cabling={cabling.value} heat={heat} device={device} choice={choice} goTo={goTo} />
      {device !== undefined && <Details of={of} hall={hall} cabling={cabling.value} device={device} choice={(one) => { choice(one); setGoTo(one); }} />}
    </>
  );
}

const ROLES: Record<string, string> = { server: "var(--cool)", leaf: "var(--bubble)", spine: "var(--contention)", core: "var(--straggler)", storage: "var(--data)", memory: "var(--latency)" };

/** What colours mean. */
function Key({ hall, cabling, heat }: { hall: Hall; cabling: Cabling | undefined; heat: Heat }) {
  const loaded = heat === "load" && cabling?.loaded;
  if (heat === "role" || (heat === "load" && !loaded))
    return <Legend items={hall.head.roles.map((role) => ({ name: role, color: ROLES[role] ?? "var(--other)" }))} />;
  const most = loaded ? `${percent(cabling.most)}, the busiest cable over the step` : `${power(hall.mostPower)} a rack, ${power(hall.mostDraw)} a device`;
  return <p class="key"><span>0</span><i /><span>{most}</span></p>;
}

const named = (hall: Hall, name: string | null): number | undefined => {
  const found = name === null ? -1 : hall.head.names.indexOf(name);
  return found < 0 ? undefined : found;
};

function Find({ hall, found }: { hall: Hall; found: (device: number) => void }) {
  const [text, setText] = useState("");
  const [none, setNone] = useState(false);
  const look = (event: Event) => {
    event.preventDefault();
    const one = named(hall, text) ?? hall.head.names.findIndex((name) => name.includes(text));
    setNone(one < 0 || text === "");
    if (one >= 0 && text !== "") found(one);
  };
  return (
    <form onSubmit={look}>
      <label class="name">Find <input value={text} placeholder={hall.head.names[hall.head.names.length - 1]} onInput={(event) => setText(event.currentTarget.value.trim())} /></label>{" "}
      <button type="submit">Show</button> {none && <span class="fault" role="alert">no device is called so</span>}
    </form>
  );
}

interface PlanProps {
  hall: Hall;
  cabling: Cabling | undefined;
  heat: Heat;
  device: number | undefined;
  choice: (device: number | undefined) => void;
  goTo: number | undefined;
}

function Plan({ hall, cabling, heat, device, choice, goTo }: PlanProps) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const camera = useRef<Camera | undefined>(undefined);
  const press = useRef<{ x: number; y: number; moved: number } | undefined>(undefined);
  const [hover, setHover] = useState<{ x: number; y: number; text: string }>();
  const again = useRef<() => void>(() => undefined);
  const [height, setHeight] = useState(400);
  const scene = (element: HTMLCanvasElement): Scene => {
    camera.current ??= fitted(hall, element.clientWidth, heightFor(hall, element.clientWidth));
    return { hall, cabling, camera: camera.current, heat, chosen: device };
  };
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
  }, [hall, cabling, heat, device, height]);
  useEffect(() => {
    const element = canvas.current;
    if (element === null || goTo === undefined) return;
    const [x, y] = hall.place(at(hall.rack, goTo));
    const scale = Math.max(camera.current?.scale ?? 0, 120);
    camera.current = { scale, x: element.clientWidth / 2 - (x + 0.5) * scale, y: heightFor(hall, element.clientWidth) / 2 - (y + 0.6) * scale };
    again.current();
  }, [goTo]);

  const zoom = (element: HTMLCanvasElement, factor: number, x: number, y: number) => {
    const now = scene(element).camera;
    const scale = Math.min(Math.max(now.scale * factor, fitted(hall, element.clientWidth, height).scale * 0.8), 1500);
    camera.current = { scale, x: x - ((x - now.x) * scale) / now.scale, y: y - ((y - now.y) * scale) / now.scale };
    again.current();
  };
  const move = (element: HTMLCanvasElement, dx: number, dy: number) => {
    const now = scene(element).camera;
    camera.current = { ...now, x: now.x + dx, y: now.y + dy };
    again.current();
  };
  const onKey = (event: KeyboardEvent) => {
    const element = event.currentTarget as HTMLCanvasElement;
    const moves: Record<string, [number, number]> = { ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60] };
    const by = moves[event.key];
    if (by !== undefined) move(element, ...by);
    else if (event.key === "+" || event.key === "w") zoom(element, 1.4, element.clientWidth / 2, height / 2);
    else if (event.key === "-" || event.key === "s") zoom(element, 1 / 1.4, element.clientWidth / 2, height / 2);
    else if (event.key === "0") { camera.current = fitted(hall, element.clientWidth, height); again.current(); }
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
  const [cool, hot] = [color("var(--cool)"), color("var(--hot)")];
  const steps = Array.from({ length: 33 }, (_, step) => `color-mix(in oklab, ${hot} ${((100 * step) / 32).toFixed(1)}%, ${cool})`);
  return {
    lane: color("var(--lane)"),
    line: color("var(--line)"),
    ink: color("var(--ink)"),
    muted: color("var(--muted)"),
    accent: color("var(--accent)"),
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

interface DetailsProps {
  of: Place;
  hall: Hall;
  cabling: Cabling | undefined;
  device: number;
  choice: (device: number) => void;
}

function Details({ of, hall, cabling, device, choice }: DetailsProps) {
  const { head } = hall;
  const cables = useMemo(() => cabling?.of(device) ?? [], [cabling, device]);
  const fault = faultOf(hall, device);
  const inject = (text: string) => address("/scenario", "run" in of ? { run: of.run, fault: text } : { file: of.file, fault: text });
  return (
    <Section title={head.names[device] ?? ""} note={`${head.boxes[at(hall.box, device)]}, ${head.roles[at(hall.role, device)]}, rack ${hall.rackName(at(hall.rack, device))} unit ${at(hall.unit, device)}, at most ${power(at(hall.draw, device))}, ${cables.length} cables.`}>
      <p class="tools">{fault && <a class="action" href={inject(fault)}>Let it die and run again</a>}</p>
      <Table
        rows={cables.slice(0, MOST_PORTS)}
        columns={[
          { head: "port", cell: (row) => row.port },
          { head: "to", text: true, cell: (row) => <button class="line" onClick={() => choice(row.peer)}>{head.names[row.peer]}</button> },
          { head: "its port", cell: (row) => row.peerPort },
          { head: "cable", text: true, cell: (row) => `${head.tiers[at(cabling?.tier ?? [], row.row)]?.name} ${String(at(cabling?.number ?? [], row.row)).padStart(6, "0")}`, wide: true },
          { head: "rate", cell: (row) => `${at(cabling?.rate ?? [], row.row)} Gb/s`, wide: true },
          { head: "length", cell: (row) => `${at(cabling?.length ?? [], row.row)} m`, wide: true },
          { head: "load", cell: (row) => { const load = at(cabling?.load ?? [], row.row); return load < 0 ? "—" : percent(load); } },
          { head: "fault", text: true, cell: (row) => { const ends = cableOf(hall, device, row.peer); return ends && <a href={inject(ends)}>cut</a>; } },
        ]}
      />
      {cables.length > MOST_PORTS && <p class="muted">and {cables.length - MOST_PORTS} more</p>}
    </Section>
  );
}

/** The fault of a dead device, as a scenario writes it. */
function faultOf(hall: Hall, device: number): string | undefined {
  if (device < hall.head.servers) return `{kind: host-down, host: ${device}}`;
  const spoken = hall.head.spoken[device];
  return spoken ? `{kind: switch-down, switch: ${spoken}}` : undefined;
}

/** The fault of all cables between two switches; those of a server are its NICs. */
function cableOf(hall: Hall, one: number, other: number): string | undefined {
  const [lower, upper] = [hall.head.spoken[one], hall.head.spoken[other]];
  return lower && upper ? `{kind: link-down, cable: ${lower} - ${upper}}` : undefined;
}
