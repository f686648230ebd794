import { band, bitRate, bytes, count, dollars, duration, energy, fixed, percent, whole } from "../format";
import { lineColor } from "../colors";
import { Figure, Legend, List, Section, StackedBar, Table } from "../parts";
import { Plot } from "../plot";
import { timeScale, moment } from "../operate";
import { linear } from "../scales";
import type { Variant } from "../result";
import type { CauseRow, EdgeVariant, FederatedVariant, LocalVariant, PlaceRow } from "../result.gen";

export type Wide = FederatedVariant | LocalVariant | EdgeVariant;
export const isWide = (variant: Variant): variant is Wide => "federated" in variant || "local" in variant || "edge" in variant;

const NONE = "\u2014";
const COLORS: Record<string, string> = {
  computation: "var(--compute)",
  uplink: "var(--bandwidth)",
  download: "var(--accent)",
  "exchange: rate of the lines": "var(--bandwidth)",
  "exchange: loss over distance": "var(--contention)",
  "exchange: propagation": "var(--latency)",
  "waiting for the slowest site": "var(--straggler)",
  "to the place": "var(--bandwidth)",
  queue: "var(--straggler)",
  prompt: "var(--compute)",
  answer: "var(--checkpoint)",
  back: "var(--latency)",
  server: "var(--bubble)",
};
const STRAGGLERS: Record<string, string> = {
  "stragglers: uplink": "var(--straggler)",
  "stragglers: download": "var(--contention)",
  "stragglers: computation": "var(--latency)",
};
const color = (name: string): string => COLORS[name] ?? STRAGGLERS[name] ?? "var(--other)";

/** A row of bars: name, causes of its time one behind the other, total. Causes that shorten a time are in the table. */
interface Bar {
  name: string;
  causes: readonly CauseRow[];
}

function bars(variants: Wide[]): Bar[] {
  return variants.flatMap((variant) => {
    if ("federated" in variant) return [{ name: variant.name, causes: variant.federated.causes }];
    if ("local" in variant) return [{ name: variant.name, causes: variant.local.causes }];
    return variant.edge.places.filter((place) => place.possible).map((place) => ({ name: variants.length > 1 ? `${variant.name}: ${place.name}` : place.name, causes: place.causes }));
  });
}

const total = (bar: Bar): number => bar.causes.reduce((sum, cause) => sum + cause.seconds, 0);

function Causes({ rows }: { rows: Bar[] }) {
  const longest = Math.max(...rows.map(total), 1e-12);
  const names = [...new Set(rows.flatMap((row) => row.causes.filter((cause) => cause.share >= 0.005).map((cause) => cause.name)))];
  return (
    <>
      <Legend items={names.map((name) => ({ name, color: color(name) }))} />
      <div class="bars">
        {rows.map((row) => (
          <div class="bar-row">
            <span class="name">{row.name}</span>
            <StackedBar whole={longest} parts={row.causes.filter((cause) => cause.seconds > 0).map((cause) => ({ name: cause.name, value: cause.seconds, color: color(cause.name), tip: `${row.name}: ${cause.name} ${duration(cause.seconds)}, ${percent(cause.share)}` }))} />
            <span class="value">{duration(total(row))}</span>
          </div>
        ))}
      </div>
    </>
  );
}

export function WideComparison({ variants, chosen, choose }: { variants: Wide[]; chosen: number; choose: (index: number) => void }) {
  const rounds = variants.flatMap((variant) => ("federated" in variant ? [variant] : []));
  const sites = variants.flatMap((variant) => ("local" in variant ? [variant] : []));
  return (
    <Section title="Side by side" note="Each bar is a mean round, step or answer, by the causes of its time.">
      <Causes rows={bars(variants)} />
      {rounds.length > 0 && (
        <Table
          rows={rounds}
          mark={(row) => row.name === variants[chosen]?.name}
          columns={[
            { head: "variant", text: true, cell: (row) => <button class="link" onClick={() => choose(variants.indexOf(row))}>{row.name}</button> },
            { head: "round", by: (row) => row.federated.round_s.mean, show: duration },
            { head: "p99", by: (row) => row.federated.round_s.p99, show: duration },
            { head: "heard", by: (row) => row.federated.participation.used, show: count },
            { head: "selected", by: (row) => row.federated.participation.selected, show: count },
            { head: "up a client", by: (row) => row.federated.traffic.client_up_bytes, show: bytes },
            { head: "wasted bytes", by: (row) => row.federated.traffic.wasted_share, show: percent },
            { head: "updates an hour", by: (row) => row.federated.server.updates_per_h, show: whole },
            { head: "energy", by: (row) => row.federated.joules.total.typical, show: energy },
            { head: "dollars a round", cell: (row) => band(row.federated.usd.total, dollars) },
          ]}
        />
      )}
      {sites.length > 0 && (
        <Table
          rows={sites}
          mark={(row) => row.name === variants[chosen]?.name}
          columns={[
            { head: "variant", text: true, cell: (row) => <button class="link" onClick={() => choose(variants.indexOf(row))}>{row.name}</button> },
            { head: "step", by: (row) => row.local.step_s, show: duration },
            { head: "computing", by: (row) => row.local.compute_utilization, show: percent },
            { head: "MFU", by: (row) => row.local.mfu, show: percent },
            { head: "exchange", by: (row) => row.local.exchange_s, show: duration },
            { head: "break-even rate", by: (row) => row.local.break_even_bps, show: bitRate },
            { head: "tokens/s", by: (row) => row.local.tokens_per_s, show: count },
            { head: "$/Mtoken", cell: (row) => band(row.local.cpmt.total, dollars) },
          ]}
        />
      )}
    </Section>
  );
}

export function WideDetails({ variant }: { variant: Wide }) {
  if ("federated" in variant) return <Rounds variant={variant} />;
  if ("local" in variant) return <Sites variant={variant} />;
  return <Places variant={variant} />;
}

function CauseTable({ causes }: { causes: readonly CauseRow[] }) {
  return (
    <Table
      rows={[...causes]}
      columns={[
        { head: "cause", text: true, by: (row) => row.name },
        { head: "seconds", cell: (row) => (row.seconds < 0 ? `\u2212${duration(-row.seconds)}` : duration(row.seconds)) },
        { head: "share", by: (row) => row.share, show: percent },
      ]}
    />
  );
}

function Rounds({ variant }: { variant: FederatedVariant }) {
  const found = variant.federated;
  const who = found.participation;
  const longest = Math.max(...found.series.map((row) => row.took_s), 1e-9);
  const span = Math.max(found.total_s, 1);
  return (
    <>
      <Section title={`A mean ${found.unit}`} note={`${whole(found.rounds)} of them, ${found.algorithm}.`}>
        <div class="figures">
          <Figure name={found.unit} value={duration(found.round_s.mean)} under={`p50 ${duration(found.round_s.p50)}, p99 ${duration(found.round_s.p99)}`} />
          <Figure name="heard" value={count(who.used)} under={`of ${count(who.selected)} selected`} />
          <Figure name="to the server" value={bytes(found.traffic.up_bytes)} under={`${percent(found.traffic.wasted_share)} of all bytes wasted`} />
          <Figure name="energy" value={energy(found.joules.total.typical)} under="devices, radios, server" />
          <Figure name="dollars" value={dollars(found.usd.total.typical)} under="server and egress" />
          {found.accuracy && <Figure name={found.accuracy.target} value={duration(found.accuracy.seconds)} under={`${whole(found.accuracy.rounds)} rounds: ${found.accuracy.source}`} />}
        </div>
        <Causes rows={[{ name: variant.name, causes: found.causes }]} />
        <CauseTable causes={found.causes} />
        <Plot label="Time of each round" x={timeScale(span)} y={linear(0, longest, 4)} showX={(value) => moment(value, span)} showY={duration} titleX="time from the first round" titleY="seconds" height={200} series={[{ name: "round", color: lineColor(0), points: found.series.map((row) => [row.at_s, row.took_s]) }]} />
      </Section>
      {found.server.shared.length > 0 && (
        <Section title="What sharing links adds to an update" note="By tier, from the clients to the server.">
          <Table
            rows={[...found.server.shared]}
            columns={[
              { head: "links", text: true, by: (row) => row.name },
              { head: "added", by: (row) => row.added_s, show: duration },
            ]}
          />
        </Section>
      )}
      <Section title="Who is heard" note="Bias is the share of the updates over the share of the clients: 1 is fair.">
        <Table
          rows={[...who.groups]}
          columns={[
            { head: "of", text: true, by: (row) => row.of },
            { head: "name", text: true, by: (row) => row.name },
            { head: "of all clients", by: (row) => row.population, show: percent },
            { head: "there", by: (row) => row.there, show: percent },
            { head: "selected", by: (row) => row.selected, show: percent },
            { head: "heard", by: (row) => row.heard, show: percent },
            { head: "bias", cell: (row) => (row.bias === null ? NONE : fixed(row.bias, 2)) },
          ]}
        />
      </Section>
      {variant.warnings.length > 0 && <List title="To know" items={[...variant.warnings]} />}
    </>
  );
}

function Sites({ variant }: { variant: LocalVariant }) {
  const found = variant.local;
  return (
    <>
      <Section title="A mean inner step" note={`${found.method}, ${whole(found.inner_steps)} steps between meetings.`}>
        <div class="figures">
          <Figure name="step" value={duration(found.step_s)} under={`${percent(found.compute_utilization)} computing`} />
          <Figure name="all parameters once" value={duration(found.exchange_s)} under={`${bytes(found.sent_bytes)} from each site`} />
          <Figure name="tokens/s" value={count(found.tokens_per_s)} under={found.mfu === null ? undefined : `MFU ${percent(found.mfu)}`} />
          <Figure name="$/Mtoken" value={band(found.cpmt.total, dollars)} />
          {found.break_even_bps !== null && <Figure name="break-even rate" value={bitRate(found.break_even_bps)} under="synchronous would be as fast" />}
        </div>
        <CauseTable causes={found.causes} />
      </Section>
      <Section title="Sites">
        <Table
          rows={[...found.sites]}
          columns={[
            { head: "site", text: true, by: (row) => row.name },
            { head: "count", by: (row) => row.count, show: whole },
            { head: "accelerators each", by: (row) => row.accelerators, show: whole },
            { head: "step", by: (row) => row.step_s, show: duration },
            { head: "known by", text: true, by: (row) => row.from },
            { head: "waits", by: (row) => row.waits, show: percent },
            { head: "tokens/s", by: (row) => row.tokens_per_s, show: count },
            { head: "$/h", cell: (row) => band(row.usd_per_h, dollars) },
          ]}
        />
        <Table
          rows={[...found.ring]}
          columns={[
            { head: "from", text: true, by: (row) => row.source },
            { head: "to", text: true, by: (row) => row.target },
            { head: "round trip", by: (row) => row.rtt_s, show: duration },
            { head: "goodput", by: (row) => row.goodput_bps, show: bitRate },
            { head: "through a relay", by: (row) => row.relayed, show: percent },
            { head: "goodput there", cell: (row) => (row.relayed > 0 ? bitRate(row.relayed_bps) : NONE) },
          ]}
        />
      </Section>
      {found.published.length > 0 && <List title="What papers report of the loss" items={[...found.published]} />}
    </>
  );
}

const joules = (row: PlaceRow): string => (row.joules === null ? NONE : energy(row.joules.typical));

function Places({ variant }: { variant: EdgeVariant }) {
  const found = variant.edge;
  return (
    <>
      <Section title="Where to answer" note={`${found.bound}. ${found.reason}.`}>
        <Causes rows={bars([variant])} />
        <Table
          rows={[...found.places]}
          mark={(row) => row.name === found.choice}
          columns={[
            { head: "place", text: true, by: (row) => row.name },
            { head: "TTFT p50", cell: (row) => (row.ttft_s === null ? NONE : duration(row.ttft_s.p50)) },
            { head: "p99", cell: (row) => (row.ttft_s === null ? NONE : duration(row.ttft_s.p99)) },
            { head: "last token p50", cell: (row) => (row.e2e_s === null ? NONE : duration(row.e2e_s.p50)) },
            { head: "SLO attainment", by: (row) => row.in_time, show: percent },
            { head: "accelerators", by: (row) => row.accelerators, show: whole },
            { head: "energy a request", cell: joules },
            { head: "$ a million requests", cell: (row) => (row.usd === null ? NONE : dollars(row.usd.typical * 1e6)) },
            { head: "leaves the device", text: true, by: (row) => row.leaves },
          ]}
        />
      </Section>
      {found.offload !== null && (
        <Section
          title="Where each kind of client had best ask"
          note={`${percent(found.offload.in_time)} of all requests meet the SLO, ${dollars(found.offload.usd.typical * 1e6)} a million, ${energy(found.offload.joules.typical)} each.`}
        >
          <Table
            rows={[...found.offload.rows]}
            columns={[
              { head: "device", text: true, by: (row) => row.device },
              { head: "access", text: true, by: (row) => row.link },
              { head: "of the requests", by: (row) => row.requests, show: percent },
              { head: "at", text: true, by: (row) => row.place },
              { head: "SLO attainment", by: (row) => row.in_time, show: percent },
            ]}
          />
        </Section>
      )}
      {variant.warnings.length > 0 && <List title="To know" items={[...variant.warnings]} />}
    </>
  );
}
