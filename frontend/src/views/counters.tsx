import type { ComponentChildren } from "preact";
import { bitRate, bytes, count, fixed, microseconds, percent, whole } from "../format";
import type { PacketFigures } from "../result.gen";
import { Section, Table } from "../parts";

/** What became of the packets, in the order in which it happens; a sentence that has nothing to tell is left out. */
function sentences({ packets, reorder }: PacketFigures): string[] {
  const { new: fresh = 0, retransmitted = 0, trimmed = 0, dropped = 0, marked = 0, nacks = 0, cnps = 0, pauses = 0, timeouts = 0, hops = 0 } = packets;
  const share = (number: number) => (fresh > 0 ? `${whole(number)} (${percent(number / fresh, number / fresh < 0.001 ? 3 : 1)})` : whole(number));
  const told: string[] = [`${whole(fresh)} packets carried data for the first time.`];
  told.push(retransmitted > 0 ? `${share(retransmitted)} had to be sent again.` : "None had to be sent again.");
  const lost = [trimmed > 0 ? `${whole(trimmed)} were cut to their headers` : "", dropped > 0 ? `${whole(dropped)} were dropped` : ""].filter((text) => text !== "");
  told.push(lost.length > 0 ? `In full queues ${lost.join(" and ")}.` : "No queue overflowed.");
  if (marked > 0) told.push(`Switches set ${whole(marked)} marks of congestion, ${fixed(marked / fresh, 2)} a packet.`);
  if (nacks > 0) told.push(`Receivers complained ${whole(nacks)} times of something missing.`);
  if (cnps > 0) told.push(`Receivers sent ${whole(cnps)} notices of congestion.`);
  if (pauses > 0) told.push(`Ports told their neighbours ${whole(pauses)} times to pause.`);
  told.push(timeouts > 0 ? `${whole(timeouts)} timers ran out.` : "No timer ran out.");
  if (reorder) told.push(`A packet arrived out of order by ${reorder.depth_p50} places at the median, ${reorder.depth_p99} at p99, ${reorder.depth_max} at most.`);
  if (hops > 0) told.push(`In all, packets of every kind crossed ${whole(hops)} links.`);
  return told;
}

/** The words for a count; another engine's own kinds keep their key. */
const WORDS: Record<string, string> = {
  new: "data, first time",
  retransmitted: "data, sent again",
  trimmed: "cut to headers",
  dropped: "dropped",
  marked: "marks of congestion",
  requests: "requests after timeouts",
  acks: "acknowledgements",
  nacks: "negative acknowledgements",
  pulls: "grants of credit",
  pauses: "pauses",
  cnps: "notices of congestion",
  timeouts: "timers run out",
  duplicates: "received twice",
  hops: "links crossed",
};

const UNITS: [suffix: string, show: (value: number) => string][] = [
  ["_ps", (value) => microseconds(value / 1e6)],
  ["_us", microseconds],
  ["_ns", (value) => microseconds(value / 1e3)],
  ["_bytes", bytes],
  ["_bps", bitRate],
];

function constant(name: string, value: unknown): { name: string; value: string } {
  const [suffix, show] = UNITS.find(([end]) => name.endsWith(end)) ?? ["", count];
  const words = name.slice(0, name.length - suffix.length).replaceAll("_", " ");
  return { name: words, value: typeof value === "number" ? show(value) : value === null ? "—" : String(value) };
}

export function Counters({ packet, children }: { packet: PacketFigures; children?: ComponentChildren }) {
  const constants = Object.entries(packet.constants).map(([name, value]) => constant(name, value));
  return (
    <Section title="What became of the packets">
      <p class="prose">{sentences(packet).join(" ")}</p>
      <details>
        <summary>Every count</summary>
        <Table
          rows={Object.entries(packet.packets)}
          columns={[
            { head: "what", text: true, cell: ([kind]) => WORDS[kind] ?? kind },
            { head: "packets", by: ([, number]) => number, show: whole },
          ]}
        />
      </details>
      {constants.length > 0 && (
        <details>
          <summary>Constants of this run</summary>
          <Table
            rows={constants}
            columns={[
              { head: "constant", text: true, by: (row) => row.name },
              { head: "value", cell: (row) => row.value },
            ]}
          />
        </details>
      )}
      {children}
    </Section>
  );
}
