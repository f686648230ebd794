import { causeColor, causeRank } from "../colors";
import { count, duration, percent } from "../format";
import { Section, Table } from "../parts";
import type { Stepped } from "../result";
import type { TimeShare } from "../result.gen";

/** Share of a step from which on a cause is shown: what would be printed as 0.0 % says nothing. */
const SEEN = 0.0005;

function name(row: TimeShare): string {
  return row.cause === "compute" ? `compute · ${row.phase}` : [row.cause, row.group, row.phase].filter((part) => part !== "").join(" · ");
}

/** What lockstep costs: the GPU-seconds that everybody waited for the late ones, and who those were. */
function Lockstep({ variant }: { variant: Stepped }) {
  const { gpu_seconds_lost_to_stragglers: lost, events, worst_ranks = [] } = variant.lockstep;
  const share = variant.time.filter((row) => row.cause === "straggler").reduce((sum, row) => sum + row.share, 0);
  if (events === 0 || share < SEEN) return null;
  const named = worst_ranks.slice(0, 3).map((worst) => `rank ${worst.rank} (${count(worst.gpu_seconds)})`).join(", ");
  return (
    <p class="note">
      Lockstep: {count(lost)} GPU-seconds of this step went into waiting for stragglers, in {count(events)} collectives{named !== "" && <>; most for {named}</>}.
    </p>
  );
}

/** From an empty step to a full one: what computation takes, then every cause of waiting, largest first within its kind. */
export function Waterfall({ variant }: { variant: Stepped }) {
  const rows = variant.time
    .filter((row) => row.share >= SEEN)
    .sort((a, b) => causeRank(a.cause) - causeRank(b.cause) || b.seconds - a.seconds);
  const whole = variant.step.seconds;
  let at = 0;
  const bars = rows.map((row) => {
    const start = at;
    at += row.seconds;
    return { row, left: (100 * start) / whole, width: (100 * row.seconds) / whole };
  });
  return (
    <Section
      title="Where the step goes"
      note={<>Mean over all ranks; the rows add up to the step of {duration(whole)}. GPU utilization is the compute part, {percent(variant.utilization.gpu)}; ranks lie between {percent(variant.utilization.ranks.min)} and {percent(variant.utilization.ranks.max)}.</>}
    >
      <div class="falls" role="img" aria-label="Utilization waterfall">
        {bars.map(({ row, left, width }) => (
          <div class="fall" title={`${name(row)}: ${duration(row.seconds)}, ${percent(row.share)}`}>
            <span class="name">{name(row)}</span>
            <div class="track"><span style={{ left: `${left}%`, width: `${width}%`, background: causeColor(row.cause) }} /></div>
            <span class="value">{duration(row.seconds)}<small>{percent(row.share)}</small></span>
          </div>
        ))}
      </div>
      <Lockstep variant={variant} />
      <details>
        <summary>As a table</summary>
        <Table
          rows={variant.time}
          columns={[
            { head: "cause", text: true, by: (row) => row.cause },
            { head: "communicator", text: true, by: (row) => row.group || "—" },
            { head: "phase", text: true, by: (row) => row.phase || "—" },
            { head: "time", by: (row) => row.seconds, show: duration },
            { head: "share", cell: (row) => percent(row.share, 2) },
          ]}
        />
      </details>
    </Section>
  );
}
