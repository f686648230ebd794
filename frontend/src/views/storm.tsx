import { lineColor } from "../colors";
import { arrow, microseconds, times, whole } from "../format";
import type { StormFigures } from "../result.gen";
import { Legend, Section, Table } from "../parts";

/** Bars of links that are shown at once. */
const SHOWN = 16;

interface Origin {
  name: string;
  paused_us: number;
  links: number;
  victims: number;
}

function origins(storm: StormFigures): Origin[] {
  const found = new Map<string, Origin>();
  for (const { origin, paused_us } of storm.links) {
    const one = found.get(origin) ?? { name: origin, paused_us: 0, links: 0, victims: 0 };
    found.set(origin, { ...one, paused_us: one.paused_us + paused_us, links: one.links + 1 });
  }
  for (const { stopped_by } of storm.victims) {
    const one = found.get(stopped_by);
    if (one !== undefined) one.victims += 1;
  }
  return [...found.values()].sort((a, b) => b.paused_us - a.paused_us);
}

const some = (number: number, noun: string): string => `${whole(number)} ${noun}${number === 1 ? "" : "s"}`;

function headline(storm: StormFigures, from: Origin[]): string {
  if (storm.pauses === 0) return "No link was ever paused.";
  const first = from[0];
  const spread = `${some(storm.pauses, "pause")} stopped ${some(storm.links.length, "link")} for ${microseconds(storm.paused_us_total)} in all, the longest for ${microseconds(storm.longest_us)}.`;
  if (first === undefined) return spread;
  const worst = [...storm.victims].sort((a, b) => b.slowdown - a.slowdown)[0];
  const harm = worst === undefined ? "No flow that had no part in it was slowed." : `Worst hit of those that had no part in it: ${arrow(worst.flow)}, ${times(worst.slowdown)} the time it takes without those that began it.`;
  return `${spread} ${arrow(first.name)} began ${first.links === storm.links.length ? "it all" : `it on ${whole(first.links)} of them`}. ${harm}`;
}

/** Where pauses began, which links they stopped, and which flows suffered that had no part in the congestion. */
export function PauseStorm({ storm }: { storm: StormFigures }) {
  const from = origins(storm);
  const color = new Map(from.map((origin, index) => [origin.name, lineColor(index)]));
  const links = [...storm.links].sort((a, b) => b.paused_us - a.paused_us);
  const longest = links[0]?.paused_us ?? 1;
  return (
    <Section title="Pauses: where they began, how far they spread, whom they hit">
      <p class="headline">{headline(storm, from)}</p>
      {links.length > 0 && (
        <>
          <Legend items={from.map(({ name, links: stopped, victims }) => ({ name: `begun by ${arrow(name)}: ${some(stopped, "link")}, ${some(victims, "victim")}`, color: color.get(name) ?? "" }))} />
          <div class="bars">
            {links.slice(0, SHOWN).map((link) => (
              <div class="bar-row long" title={`${some(link.pauses, "pause")}, begun by ${arrow(link.origin)}`}>
                <span class="name">{arrow(link.link)}</span>
                <div class="stack"><span style={{ width: `${(100 * link.paused_us) / longest}%`, background: color.get(link.origin) }} /></div>
                <span class="value">{microseconds(link.paused_us)}</span>
              </div>
            ))}
          </div>
          <details>
            <summary>{some(links.length, "paused link")} as a table</summary>
            <Table
              rows={links}
              columns={[
                { head: "link", text: true, cell: (row) => arrow(row.link) },
                { head: "paused", by: (row) => row.paused_us, show: microseconds },
                { head: "pauses", by: (row) => row.pauses, show: whole },
                { head: "begun by", text: true, cell: (row) => arrow(row.origin) },
              ]}
            />
          </details>
        </>
      )}
      {storm.victims.length > 0 && (
        <>
          <h3>Victims: slowed without sending to what was congested</h3>
          <Table
            rows={[...storm.victims].sort((a, b) => b.slowdown - a.slowdown)}
            columns={[
              { head: "flow", text: true, cell: (row) => arrow(row.flow) },
              { head: "took", by: (row) => row.fct_us, show: microseconds },
              { head: "undisturbed", by: (row) => row.alone_us, show: microseconds },
              { head: "slowdown", by: (row) => row.slowdown, show: times },
              { head: "stopped by", text: true, cell: (row) => arrow(row.stopped_by) },
            ]}
          />
        </>
      )}
    </Section>
  );
}
