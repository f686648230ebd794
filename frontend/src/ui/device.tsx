/** A device of the hall: its cables, where they lead, what they carry, and a fault that is a click away. */

import { useMemo } from "preact/hooks";
import { percent, power } from "../format";
import { Section, Table } from "../parts";
import { address } from "../place";
import type { Place } from "./api";
import { at, type Cabling, type Hall } from "./hall";

const MOST_PORTS = 128;

interface DetailsProps {
  of: Place;
  hall: Hall;
  cabling: Cabling | undefined;
  device: number;
  choice: (device: number) => void;
}

export function Details({ of, hall, cabling, device, choice }: DetailsProps) {
  const { head } = hall;
  const cables = useMemo(() => cabling?.of(device) ?? [], [cabling, device]);
  const fault = faultOf(hall, device);
  const inject = (text: string | undefined, words: string, look = "") =>
    text === undefined || "answer" in of ? null : <a class={look} href={address("/scenario", "run" in of ? { run: of.run, fault: text } : { file: of.file, fault: text })}>{words}</a>;
  return (
    <Section title={head.names[device] ?? ""} note={`${head.boxes[at(hall.box, device)]}, ${head.roles[at(hall.role, device)]}, rack ${hall.rackName(at(hall.rack, device))} unit ${at(hall.unit, device)}, at most ${power(at(hall.draw, device))}, ${cables.length} cables.`}>
      <p class="tools">{inject(fault, "Let it die and run again", "action")}</p>
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
          { head: "fault", text: true, cell: (row) => inject(cableOf(hall, device, row.peer), "cut") },
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
  return lower && upper ? `{kind: link-down, cable: ${lower} - ${upper}, cables: all}` : undefined;
}
