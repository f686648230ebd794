/** A step on another cluster, forecast from a trace: how long, how sure, where it goes, and what was not recognized. */

import type { ScaleAnswer, UnrecognizedRow } from "../answers.gen";
import { bytes, capital, count, duration, percent, whole } from "../format";
import { Section, Spelt, Table } from "../parts";

/** Rows that are listed; a trace may have hundreds of collectives. */
const MOST = 12;
/** Of a kernel's name; templates make them long. */
const LETTERS = 80;

export function ScaleView({ answer }: { answer: ScaleAnswer }) {
  return (
    <>
      <Unrecognized rows={answer.unrecognized} />
      <Where answer={answer} />
      <Band answer={answer} />
      <Machine answer={answer} />
      <Layout answer={answer} />
      <Collectives answer={answer} />
      <Traced answer={answer} />
    </>
  );
}

function Unrecognized({ rows }: { rows: UnrecognizedRow[] }) {
  if (rows.length === 0) return null;
  return (
    <Section title="What was not recognized" note="Time is that of a step which it concerns.">
      <Table
        rows={rows}
        columns={[
          { head: "what", text: true, cell: (row) => <><Spelt words={capital(row.what)} /><br /><span class="source"><Spelt words={row.why} /></span></> },
          { head: "time", cell: (row) => (row.seconds > 0 ? duration(row.seconds) : "—") },
        ]}
      />
    </Section>
  );
}

function Where({ answer }: { answer: ScaleAnswer }) {
  return (
    <Section title="Where the step goes" note="Mean over ranks; computation includes idle time that the host causes.">
      <Table
        rows={answer.step.time.slice(0, MOST)}
        columns={[
          { head: "cause", text: true, by: (row) => row.cause },
          { head: "group", text: true, by: (row) => row.group || "—" },
          { head: "time", by: (row) => row.seconds, show: duration },
          { head: "share", by: (row) => row.share, show: percent },
        ]}
      />
    </Section>
  );
}

function Band({ answer }: { answer: ScaleAnswer }) {
  const rows = answer.band.parts.filter((part) => part.low_s > 0 || part.high_s > 0);
  return (
    <Section title="Sources of error" folded note="Parts are independent of one another: the band is the root of the sum of their squares.">
      <Table
        rows={rows}
        columns={[
          { head: "source", text: true, cell: (row) => <span class="source">{row.source}</span> },
          { head: "shorter", cell: (row) => (row.low_s > 0 ? `−${duration(row.low_s)}` : "—") },
          { head: "longer", cell: (row) => (row.high_s > 0 ? `+${duration(row.high_s)}` : "—") },
        ]}
      />
    </Section>
  );
}

const FITS = new Map([[true, "yes"], [false, "no"], [null, "not known"]]);

function Machine({ answer }: { answer: ScaleAnswer }) {
  return (
    <Section title="The traced machine and the target">
      <Table
        rows={answer.target}
        mark={(row) => row.fits === false}
        columns={[
          { head: "what", text: true, cell: (row) => <>{row.what}{row.means && <><br /><span class="source"><Spelt words={row.means} /></span></>}</> },
          { head: "traced", text: true, by: (row) => row.traced },
          { head: "target", text: true, by: (row) => row.target },
          { head: "fits", text: true, cell: (row) => FITS.get(row.fits) },
        ]}
      />
    </Section>
  );
}

function Layout({ answer }: { answer: ScaleAnswer }) {
  return (
    <Section title="Parallelism" note={`Groups next to one another first.${answer.buckets && ` Gradient buckets: ${answer.buckets}.`}`}>
      <Table
        rows={answer.layout}
        columns={[
          { head: "group", text: true, by: (row) => row.role },
          { head: "traced", by: (row) => row.traced, show: whole },
          { head: "forecast", by: (row) => row.target, show: whole },
          { head: "known by", text: true, cell: (row) => <span class="source"><Spelt words={row.known_by} /></span> },
        ]}
      />
    </Section>
  );
}

function Collectives({ answer }: { answer: ScaleAnswer }) {
  const rows = answer.collectives;
  if (rows.length === 0) return null;
  return (
    <Section title="Collectives on the target" folded note="The most time-consuming first.">
      <Table
        rows={rows.slice(0, MOST)}
        columns={[
          { head: "collective", text: true, by: (row) => row.kind },
          { head: "group", text: true, by: (row) => row.group },
          { head: "ranks", by: (row) => row.ranks, show: whole },
          { head: "size", by: (row) => row.size_bytes, show: bytes },
          { head: "times", by: (row) => row.times, show: whole, wide: true },
          { head: "algorithm", text: true, by: (row) => row.algorithm, wide: true },
          { head: "alone", by: (row) => row.alone_s, show: duration, wide: true },
          { head: "time", by: (row) => row.mean_s, show: duration },
        ]}
      />
      {rows.length > MOST && <p class="muted">and {rows.length - MOST} more</p>}
    </Section>
  );
}

function Traced({ answer: { traced } }: { answer: ScaleAnswer }) {
  const known: [string, string][] = [
    ["ranks with a trace", `${whole(traced.ranks.length)} of ${whole(traced.world)}`],
    ["step", `${traced.step}, the median of ${traced.steps}: ${duration(traced.step_s)}`],
    ["the same replayed with the waits below", duration(traced.replayed_s)],
    ["waits", `${count(traced.exact_waits)} by events, ${count(traced.seen_waits)} by idle time, ${count(traced.assumed_waits)} assumed`],
    ["kernels while a communication ran", `${percent(traced.overlapped_share)} of kernel time`],
    ["framework", traced.framework ?? "not recognized"],
    ["model", traced.model === null ? "not recognized" : `${traced.model}, ${traced.micro_batches} micro-batches of ${traced.micro_batch} x ${traced.sequence} tokens`],
    ...traced.slowed.slice(0, 3).map((row): [string, string] => [`slowed ${row.factor.toFixed(2)} times by communication`, row.kernel.slice(0, LETTERS)]),
  ];
  return (
    <Section title="The trace" folded>
      <Table
        rows={known}
        columns={[
          { head: "what", text: true, by: ([what]) => what },
          { head: "found", text: true, cell: ([, found]) => <span class="source">{found}</span> },
        ]}
      />
    </Section>
  );
}
