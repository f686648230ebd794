/** A step on another cluster, forecast from a trace: how long, how sure, where it goes, and what was not recognized. */

import type { ScaleAnswer, UnrecognizedRow } from "../answers.gen";
import { bytes, capital, count, dollars, duration, percent, whole } from "../format";
import { BandBar, Figure, List, Section, Spelt, Table } from "../parts";

/** Rows that are listed; a trace may have hundreds of collectives. */
const MOST = 12;
/** Of a kernel's name; templates make them long. */
const LETTERS = 80;

export function ScaleView({ answer }: { answer: ScaleAnswer }) {
  return (
    <div class="wraps">
      <Conclusion answer={answer} />
      <Unrecognized rows={answer.unrecognized} />
      <Where answer={answer} />
      <Band answer={answer} />
      <Machine answer={answer} />
      <Layout answer={answer} />
      <Collectives answer={answer} />
      <Traced answer={answer} />
      <List title="What the forecast does not model" items={answer.left_out} />
    </div>
  );
}

function Conclusion({ answer }: { answer: ScaleAnswer }) {
  const { step, band, tax, cost } = answer;
  return (
    <section>
      <h2>A step takes {duration(step.seconds)} on {whole(answer.accelerators)} accelerators</h2>
      <p class="headline">Eight of ten measured steps should lie between {duration(band.low)} and {duration(band.high)}. The network takes {percent(tax.tokens_lost)} of the step.</p>
      <BandBar band={{ low: band.low, typical: step.seconds, high: band.high }} whole={band.high * 1.05} />
      <div class="figures">
        <Figure name="Kernels" value={duration(step.kernels_s)} under="of a rank, mean" />
        <Figure name="Idle for the host" value={duration(step.host_s)} under="between kernels" />
        <Figure name="Without networks" value={duration(tax.step_without_networks_s)} under="the step alone" />
        <Figure name="Measured" value={percent(answer.measured_share, 0)} under="of compute time; the rest is modelled" />
        <Figure name="It costs" value={`${dollars(cost.usd_per_run.typical)} a step`} under={`${dollars(cost.usd_per_h.typical)} an hour`} />
      </div>
    </section>
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
          { head: "cause", text: true, cell: (row) => row.cause },
          { head: "group", text: true, cell: (row) => row.group || "—" },
          { head: "time", cell: (row) => duration(row.seconds) },
          { head: "share", cell: (row) => percent(row.share) },
        ]}
      />
    </Section>
  );
}

function Band({ answer }: { answer: ScaleAnswer }) {
  const rows = answer.band.parts.filter((part) => part.low_s > 0 || part.high_s > 0);
  return (
    <Section title="Why the band is so wide" note="Parts are independent of one another: the band is the root of the sum of their squares.">
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
          { head: "traced", text: true, cell: (row) => row.traced },
          { head: "target", text: true, cell: (row) => row.target },
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
          { head: "group", text: true, cell: (row) => row.role },
          { head: "traced", cell: (row) => whole(row.traced) },
          { head: "forecast", cell: (row) => whole(row.target) },
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
    <Section title="Collectives on the target" note="The most time-consuming first.">
      <Table
        rows={rows.slice(0, MOST)}
        columns={[
          { head: "collective", text: true, cell: (row) => row.kind },
          { head: "group", text: true, cell: (row) => row.group },
          { head: "ranks", cell: (row) => whole(row.ranks) },
          { head: "size", cell: (row) => bytes(row.size_bytes) },
          { head: "times", cell: (row) => whole(row.times), wide: true },
          { head: "algorithm", text: true, cell: (row) => row.algorithm, wide: true },
          { head: "alone", cell: (row) => duration(row.alone_s), wide: true },
          { head: "time", cell: (row) => duration(row.mean_s) },
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
    <Section title="What the trace holds">
      <Table
        rows={known}
        columns={[
          { head: "what", text: true, cell: ([what]) => what },
          { head: "found", text: true, cell: ([, found]) => <span class="source">{found}</span> },
        ]}
      />
    </Section>
  );
}
