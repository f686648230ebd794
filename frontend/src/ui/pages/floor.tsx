/** The hall of a run's cluster: from the floor to the port, with the load of every cable over time; a fault is a click away. */

import { useEffect, useMemo, useState } from "preact/hooks";
import { useRow } from "../../answers/chosen";
import { percent, power, whole as inWords } from "../../format";
import { ButtonRow, Legend, Spelt } from "../../parts";
import { choose, chosen } from "../../place";
import { Topology } from "../../views/topology";
import { api, type Place } from "../api";
import type { Mark } from "../api.gen";
import { Details } from "../device";
import type { Heat } from "../floor_paint";
import { Plan, ROLES } from "../floor_plan";
import { Cabling, Hall } from "../hall";
import { useLoaded } from "../loaded";
import { Marked } from "../marked";
import { OverTime } from "../over_time";
import { TimeSlider } from "../time_slider";

/** The run that the address names, or the scenario file, or what an answer is about. */
async function place(): Promise<Place> {
  const file = chosen("file");
  if (file !== null) return { file, text: (await api.read(file)).text };
  const answer = chosen("answer");
  if (answer !== null) return { answer };
  return { run: chosen("run") ?? "", variant: Number.parseInt(chosen("variant") ?? "0", 10) || 0 };
}

export function FloorPage() {
  const [found] = useLoaded(async () => { const of = await place(); return { of, hall: new Hall(await api.hall(of)) }; }, []);
  if (found.error !== undefined) return <p class="failure">{found.error}. <a href="#/">To the runs</a></p>;
  if (found.value === undefined) return <p class="muted" role="status">drawing the hall</p>;
  return <Floor of={found.value.of} hall={found.value.hall} />;
}

const nameOf = (of: Place): string => ("run" in of ? of.run : "answer" in of ? of.answer : of.file);

const heatsOf = (of: Place): Heat[] => ("answer" in of ? ["findings", "power", "role"] : ["load", "power", "role"]);

/** Load at the hot end over a step: at least this, so that a network that is hardly used does not look alarming. */
const LEAST_HOT = 0.25;
const hotEnd = (cabling: Cabling | undefined): number => Math.max(cabling?.most ?? 1, LEAST_HOT);

/** How the network is drawn: where it stands, or by its tiers. */
const DRAWN = ["hall", "tiers"] as const;

/** Which window of the step is shown, and the loads of its cables. */
function useMoment(of: Place, cabling: Cabling | undefined, cables: number): { over: OverTime | undefined; none: string | undefined; window: number | undefined; set: (window: number | undefined) => void; shown: number | undefined } {
  const [over] = useLoaded(async () => ("run" in of ? new OverTime(await api.load(of.run, of.variant), of.run, of.variant, cables) : undefined), []);
  const [window, put] = useState<number | undefined>(() => { const found = Number.parseInt(chosen("window") ?? "", 10); return found >= 0 ? found : undefined; });
  const [shown, show] = useState<number | undefined>(undefined);
  const within = window === undefined || over.value === undefined ? undefined : Math.min(window, over.value.head.windows - 1);
  useEffect(() => {
    if (cabling === undefined || over.value === undefined) return undefined;
    let late = false;
    if (within === undefined) {
      cabling.show(undefined);
      show(undefined);
    } else {
      over.value.ofCables(within).then((load) => {
        if (late) return;
        cabling.show(load);
        show(within);
      }, () => undefined);
    }
    return () => { late = true; };
  }, [cabling, over.value, within]);
  const set = (next: number | undefined) => {
    put(next);
    choose("window", next === undefined ? null : String(next));
  };
  return { over: over.value, none: over.error, window: within, set, shown };
}

function Floor({ of, hall }: { of: Place; hall: Hall }) {
  const heats = heatsOf(of);
  const [cabling] = useLoaded(async () => new Cabling(await api.cables(of), hall), [hall]);
  const [marks] = useLoaded<Mark[]>(async () => ("answer" in of ? (await api.marks(of.answer)).rows : []), []);
  const [heat, setHeat] = useState<Heat>(() => heats.find((each) => each === chosen("heat")) ?? heats[0] ?? "role");
  const [drawn, setDrawn] = useState(Math.max(0, DRAWN.indexOf((chosen("drawn") ?? "hall") as (typeof DRAWN)[number])));
  const [device, setDevice] = useState<number | undefined>(() => named(hall, chosen("device")));
  const [goTo, setGoTo] = useState<readonly number[] | undefined>(device === undefined || chosen("view") !== null ? undefined : [device]);
  const [row, chooseRow] = useRow();
  const time = useMoment(of, cabling.value, hall.head.cables);
  const found = useMemo(() => foundAt(marks.value ?? [], cabling.value), [marks.value, cabling.value]);
  const lit = row === undefined ? undefined : marks.value?.[row];
  useEffect(() => {
    if (lit === undefined || cabling.value === undefined) return;
    const ends = lit.cables.slice(0, 64).flatMap((cable) => cabling.value?.ends(cable) ?? []);
    setGoTo([...lit.devices, ...ends]);
  }, [lit, cabling.value]);
  const choice = (next: number | undefined) => {
    setDevice(next);
    choose("device", next === undefined ? null : (hall.head.names[next] ?? null));
  };
  const go = (one: number) => { choice(one); setGoTo([one]); };
  const { head } = hall;
  const most = time.window === undefined ? hotEnd(cabling.value) : 1;
  const tiers = DRAWN[drawn] === "tiers" && time.over !== undefined;
  return (
    <>
      <h1>The hall of {nameOf(of)}</h1>
      <p class="muted">
        {inWords(head.servers * head.accelerators_per_server)} accelerators in {inWords(head.servers)} servers, {inWords(head.names.length - head.servers)} other devices,{" "}
        {inWords(hall.row.length)} racks, {inWords(head.cables)} cables. Laid out by the rules of <code>railyard deploy</code>.
      </p>
      {head.remarks.map((remark) => <p class="fault"><Spelt words={remark} /></p>)}
      <div class="tools">
        <ButtonRow label="Colour by" names={heats} chosen={heats.indexOf(heat)} choose={(index) => { setHeat(heats[index] ?? "role"); choose("heat", heats[index] ?? null); }} />
        {time.over && <ButtonRow label="Drawn as" names={[...DRAWN]} chosen={drawn} choose={(index) => { setDrawn(index); choose("drawn", index === 0 ? null : (DRAWN[index] ?? null)); }} />}
        <Find hall={hall} found={go} />
        {cabling.value === undefined && cabling.error === undefined && <span class="muted" role="status">reading {inWords(head.cables)} cables</span>}
        {marks.error && <span class="fault">{marks.error}</span>}
        {cabling.value?.loaded === false && !("answer" in of) && <span class="muted">{"run" in of ? "This run counted no bytes on links" : "Not run yet"}: nothing has a load.</span>}
      </div>
      {time.over && heat === "load" && <TimeSlider over={time.over} window={time.window} set={time.set} />}
      {"run" in of && time.none && heat === "load" && <p class="muted">No load over time: {time.none}.</p>}
      <Key hall={hall} cabling={cabling.value} heat={heat} moment={time.window !== undefined} />
      {tiers && time.over ? (
        <section><Topology picture={time.over.head.picture} label="Link load over the tiers" load={(edge) => time.over?.edge(edge, time.window) ?? 0} /></section>
      ) : (
        <Plan hall={hall} cabling={cabling.value} heat={heat} device={device} choice={choice} goTo={goTo} lit={lit} found={found} most={most} moment={time.shown} />
      )}
      {"answer" in of && (marks.value?.length ?? 0) > 0 && <Marked answer={of.answer} rows={marks.value ?? []} row={row} choose={chooseRow} />}
      {device !== undefined && <Details key={time.shown ?? -1} of={of} hall={hall} cabling={cabling.value} device={device} choice={go} />}
    </>
  );
}

/** Devices with a finding at them or at their cables, and its share of the most expensive one. */
function foundAt(marks: Mark[], cabling: Cabling | undefined): ReadonlyMap<number, number> {
  const highest = Math.max(1e-9, ...marks.map((mark) => mark.usd_per_month ?? 0));
  const found = new Map<number, number>();
  for (const mark of marks)
    for (const device of [...mark.devices, ...mark.cables.flatMap((cable) => cabling?.ends(cable) ?? [])])
      found.set(device, Math.max(found.get(device) ?? 0, (mark.usd_per_month ?? 0) / highest));
  return found;
}

/** What colours mean. */
function Key({ hall, cabling, heat, moment }: { hall: Hall; cabling: Cabling | undefined; heat: Heat; moment: boolean }) {
  if (heat === "findings") return <p class="key"><span>found, costs nothing by itself</span><i class="found" /><span>the most expensive finding</span></p>;
  const loaded = heat === "load" && cabling?.loaded;
  if (heat === "role" || (heat === "load" && !loaded))
    return <Legend items={hall.head.roles.map((role) => ({ name: role, color: ROLES[role] ?? "var(--other)" }))} />;
  const most = loaded && moment ? "100 % of a cable's rate at this moment" : loaded ? `${percent(hotEnd(cabling))} over the step; the busiest cable has ${percent(cabling.most)}` : `${power(hall.mostPower)} a rack, ${power(hall.mostDraw)} a device`;
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

