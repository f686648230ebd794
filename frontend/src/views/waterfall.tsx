import { causeColor, causeRank } from "../colors";
import { count, duration, percent } from "../format";
import { Section, Table } from "../parts";
import type { TimeRow, Variant } from "../result";

const ROW = 26;
const LABEL = 190;
const WIDTH = 900;

function name(row: TimeRow): string {
  return row.cause === "compute" ? `compute · ${row.phase}` : [row.cause, row.group, row.phase].filter((part) => part !== "").join(" · ");
}

/** What lockstep costs: the GPU-seconds that everybody waited for the late ones, and who those were. */
function Lockstep({ variant }: { variant: Variant }) {
  const { gpu_seconds_lost_to_stragglers: lost, events, worst_ranks = [] } = variant.lockstep;
  if (events === 0 || lost <= 0) return null;
  const named = worst_ranks.slice(0, 3).map((worst) => `rank ${worst.rank} (${count(worst.gpu_seconds)})`).join(", ");
  return (
    <p class="note">
      Lockstep: {count(lost)} GPU-seconds of this step went into waiting for stragglers, in {count(events)} collectives{named !== "" && <>; most for {named}</>}.
    </p>
  );
}

/** From an empty step to a full one: what computation takes, then every cause of waiting, largest first within its kind. */
export function Waterfall({ variant }: { variant: Variant }) {
  const rows = variant.time
    .filter((row) => row.share >= 0.0005)
    .sort((a, b) => causeRank(a.cause) - causeRank(b.cause) || b.seconds - a.seconds);
  const whole = variant.step.seconds;
  const scale = (WIDTH - LABEL - 150) / whole;
  let at = 0;
  return (
    <Section
      title="Where the step goes"
      note={<>Mean over all ranks; the rows add up to the step of {duration(whole)}. GPU utilization is the compute part, {percent(variant.utilization.gpu)}; ranks lie between {percent(variant.utilization.ranks.min)} and {percent(variant.utilization.ranks.max)}.</>}
    >
      <div class="scroll">
        <svg viewBox={`0 0 ${WIDTH} ${rows.length * ROW + 8}`} class="chart" role="img" aria-label="Utilization waterfall">
          {rows.map((row, index) => {
            const start = at;
            at += row.seconds;
            const y = index * ROW + 4;
            const right = LABEL + at * scale;
            return (
              <g>
                <title>{`${name(row)}: ${duration(row.seconds)}, ${percent(row.share)}`}</title>
                <line x1={LABEL} x2={WIDTH - 150} y1={y + ROW - 3} y2={y + ROW - 3} class="rule" />
                <text x={LABEL - 10} y={y + 15} class="label">{name(row)}</text>
                <rect x={LABEL + start * scale} y={y + 3} width={Math.max(row.seconds * scale, 1)} height={ROW - 10} rx="2" style={{ fill: causeColor(row.cause) }} />
                <text x={right + 8} y={y + 15} class="number">{duration(row.seconds)} · {percent(row.share)}</text>
              </g>
            );
          })}
        </svg>
      </div>
      <Lockstep variant={variant} />
      <details>
        <summary>As a table</summary>
        <Table
          rows={variant.time}
          columns={[
            { head: "cause", text: true, cell: (row) => row.cause },
            { head: "communicator", text: true, cell: (row) => row.group || "—" },
            { head: "phase", text: true, cell: (row) => row.phase || "—" },
            { head: "time", cell: (row) => duration(row.seconds) },
            { head: "share", cell: (row) => percent(row.share, 2) },
          ]}
        />
      </details>
    </Section>
  );
}
