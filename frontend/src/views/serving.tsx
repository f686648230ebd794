import { lineColor, lineDashes } from "../colors";
import { axisTime, band, bitRate, capital, count, dollars, duration, percent, power, whole } from "../format";
import { BandBar, type Column, Figure, Legend, List, Section, Spelt, StackedBar, Table } from "../parts";
import { Plot } from "../plot";
import { linear } from "../scales";
import type { ServingTaxShares } from "../result.gen";
import { LEVELS, PARTS, type Served, servingTax } from "../serving";
import { Curves, Fronts } from "./capacity";
import { Stages } from "./stages";
import { Swept } from "./sweep";

const time = (seconds: number | null): string => (seconds === null ? "—" : duration(seconds));
const share = (value: number | undefined): string => (value === undefined ? "—" : percent(value));
const sum = (parts: { [key: string]: number }): number => Object.values(parts).reduce((total, part) => total + part, 0);

/** From so many variants on, curves say more than bars and come first. */
const MANY = 8;

/** Every variant of a serving run beside the others. */
export function ServingComparison({ variants, chosen, choose }: { variants: Served[]; chosen: number; choose: (index: number) => void }) {
  const many = variants.length > MANY;
  return (
    <Section title="Side by side" note="Click a row for its details.">
      <Swept variants={variants} />
      {many && <Curves variants={variants} chosen={chosen} />}
      {many && <Fronts variants={variants} />}
      {!many && <Prices variants={variants} chosen={chosen} choose={choose} />}
      <Table
        rows={variants}
        mark={(row) => row === variants[chosen]}
        columns={[
          { head: "variant", text: true, by: (row) => row.name },
          { head: "requests/s", by: ({ serving }) => serving.requests.rate_per_s, show: count },
          { head: "TTFT p50", by: ({ serving }) => serving.ttft_s.p50, show: duration },
          { head: "TTFT p99", by: ({ serving }) => serving.ttft_s.p99, show: duration },
          { head: "TPOT p99", by: ({ serving }) => serving.tpot_s.p99, show: duration },
          { head: "SLO attainment", by: ({ serving }) => serving.slo.attainment, show: percent },
          { head: "tokens/s per GPU", by: ({ serving }) => serving.throughput.per_gpu, show: count },
          { head: "$/Mtoken", by: ({ serving }) => serving.cpmt?.total.typical, show: dollars },
        ]}
      />
      {!many && <Curves variants={variants} chosen={chosen} />}
      {!many && <Fronts variants={variants} />}
      <details>
        <summary>Prices, capacity and KV cache of each variant</summary>
        {many && <Prices variants={variants} chosen={chosen} choose={choose} />}
        <Table
          rows={variants}
          mark={(row) => row === variants[chosen]}
          columns={[
            { head: "variant", text: true, by: (row) => row.name },
            { head: "TPOT p50", by: ({ serving }) => serving.tpot_s.p50, show: duration },
            { head: "goodput, requests/s", by: ({ serving }) => serving.slo.goodput_rps, show: count },
            { head: "most requests/s within the SLO", cell: ({ serving }) => capacityWords(serving), by: ({ serving }) => serving.capacity?.rate_per_s },
            { head: "KV hits", by: ({ serving }) => serving.kv.hit_rate, show: percent },
            { head: "$/M input", by: ({ serving }) => serving.cpmt?.split_input.typical, show: dollars },
            { head: "$/M output", by: ({ serving }) => serving.cpmt?.split_output.typical, show: dollars },
          ]}
        />
      </details>
      <details>
        <summary>Network tax of each variant</summary>
        <Table
          rows={variants}
          mark={(row) => row === variants[chosen]}
          columns={[{ head: "variant", text: true, by: (row) => row.name }, ...taxColumns("scale-out", servingTax), ...taxColumns("scale-up", (row) => servingTax(row)?.scale_up)]}
        />
      </details>
    </Section>
  );
}

function Prices({ variants, chosen, choose }: { variants: Served[]; chosen: number; choose: (index: number) => void }) {
  const highest = Math.max(...variants.map((variant) => variant.serving.cpmt?.total.high ?? 0), 1e-12);
  return (
    <>
      <h3>Cost per million tokens within the SLO, prompt and answer together: low, typical, high</h3>
      <div class="bars">
        {variants.map((variant, index) => (
          <button class="bar-row" aria-pressed={index === chosen} onClick={() => choose(index)}>
            <span class="name">{variant.name}</span>
            {variant.serving.cpmt ? <BandBar band={variant.serving.cpmt.total} whole={highest} /> : <span class="muted">no request met the SLO</span>}
            <span class="value wide">{variant.serving.cpmt ? band(variant.serving.cpmt.total, dollars) : "—"}</span>
          </button>
        ))}
      </div>
    </>
  );
}

/** What a network costs in goodput and in the slowest latencies. */
function taxColumns(network: string, of: (row: Served) => ServingTaxShares | undefined): Column<Served>[] {
  return [
    { head: `${network}: goodput`, by: (row) => of(row)?.goodput_lost, show: percent },
    { head: "TTFT p99", by: (row) => of(row)?.ttft.p99, show: percent },
    { head: "TPOT p99", by: (row) => of(row)?.tpot.p99, show: percent },
  ];
}

function capacityWords(serving: Served["serving"]): string {
  if (serving.capacity === null) return "—";
  if (serving.capacity.rate_per_s <= 0) return "none";
  return `${serving.capacity.bounded ? "" : "> "}${count(serving.capacity.rate_per_s)}`;
}

/** One variant: latencies, parts of the first token, cost, where the accelerators' time goes. */
export function ServingDetails({ variant, alone }: { variant: Served; alone: boolean }) {
  const { serving } = variant;
  return (
    <>
      <Section title="Latencies" note="The first token counts when the user sees it: with disaggregated prefill, when the decode replica has the KV cache. Percentiles are by nearest rank.">
        {(variant.warnings ?? []).map((line) => <p class="note"><Spelt words={`${capital(line)}.`} /></p>)}
        <div class="figures">
          <Figure name="SLO attainment" value={percent(serving.slo.attainment)} under={limits(variant)} />
          <Figure name="Goodput" value={`${count(serving.slo.goodput_rps)} requests/s`} under={`in ${duration(serving.throughput.span_s)}, first arrival to last token; ${count(serving.requests.rate_per_s)} requests/s arrived`} />
          <Figure name="Throughput" value={`${count(serving.throughput.per_gpu)} tokens/s`} under={`of answers, per GPU; ${count(serving.throughput.per_mw)} per MW`} />
          <Figure name="Interactivity" value={serving.throughput.per_user === null ? "—" : `${count(serving.throughput.per_user)} tokens/s`} under="per user, median" />
          <Figure name="KV cache hits" value={percent(serving.kv.hit_rate)} under={`of prompt tokens; cache at most ${percent(serving.kv.peak_share, 0)} full`} />
          <Figure name="Metered power" value={power(serving.power.total_w.typical)} under={`${power(serving.power.provisioned_w.typical)} IT power provisioned`} />
        </div>
        <Latencies variant={variant} />
        <h3>What the time to the first token is made of</h3>
        <Breakdown variant={variant} />
      </Section>
      {alone && (serving.capacity !== null || serving.pareto.length > 1) && (
        <Section title="Capacity"><Curves variants={[variant]} chosen={0} /><Fronts variants={[variant]} /></Section>
      )}
      <Stages variant={variant} />
      <ServingCost variant={variant} />
      <Queues serving={variant.serving} />
      <Pools variant={variant} />
    </>
  );
}

function limits({ serving: { slo } }: Served): string {
  const told = ([["TTFT", slo.ttft_s], ["TPOT", slo.tpot_s], ["end to end", slo.e2e_s]] as [string, number | null][]).filter(([, limit]) => limit !== null);
  return told.length === 0 ? "no objective was set" : told.map(([name, limit]) => `${name} ${duration(limit ?? 0)}`).join(", ");
}

function Latencies({ variant: { serving } }: { variant: Served }) {
  const rows = [
    { name: "time to first token", of: serving.ttft_s },
    { name: "of which in the queue", of: serving.queue_s },
    { name: "time per further token", of: serving.tpot_s },
    { name: "time between two tokens", of: serving.itl_s },
    { name: "end to end", of: serving.e2e_s },
  ];
  return (
    <Table
      rows={rows}
      columns={[
        { head: "latency", text: true, by: (row) => row.name },
        { head: "mean", cell: (row) => time(row.of.mean) },
        ...LEVELS.map(({ key, name }) => ({ head: name, cell: (row: (typeof rows)[number]) => time(row.of[key]) })),
      ]}
    />
  );
}

function Breakdown({ variant }: { variant: Served }) {
  const { serving } = variant;
  const tax = servingTax(variant);
  const rows = LEVELS.flatMap(({ key, name }) => {
    const parts = serving.ttft_parts[key];
    return parts ? [{ name, parts, whole: sum({ ...parts }), tax: { ttft: tax?.ttft[key], tpot: tax?.tpot[key] } }] : [];
  });
  const longest = Math.max(...rows.map((row) => row.whole), 1e-12);
  return (
    <>
      <Legend items={PARTS} />
      <div class="bars">
        {rows.map((row) => (
          <div class="bar-row">
            <span class="name">{row.name}</span>
            <StackedBar whole={longest} parts={PARTS.map(({ key, name, color }) => ({ name, color, value: row.parts[key], tip: `${name} ${duration(row.parts[key])}` }))} />
            <span class="value">{duration(row.whole)}</span>
          </div>
        ))}
      </div>
      <Table
        rows={rows}
        columns={[
          { head: "percentile", text: true, by: (row) => row.name },
          ...PARTS.map(({ key, name }) => ({ head: name, cell: (row: (typeof rows)[number]) => duration(row.parts[key]) })),
          { head: "sum", by: (row) => row.whole, show: duration },
          { head: "network tax of TTFT", cell: (row) => share(row.tax.ttft) },
          { head: "network tax of TPOT", cell: (row) => share(row.tax.tpot) },
        ]}
      />
    </>
  );
}

function ServingCost({ variant: { serving } }: { variant: Served }) {
  const { cpmt } = serving;
  if (cpmt === null) return <Section title="Cost per million tokens"><p>No request met the SLO, so no token has a price.</p></Section>;
  const rows = [
    { name: "all tokens", of: cpmt.total },
    ...(cpmt.rented_total ? [{ name: "all tokens, rented", of: cpmt.rented_total }] : []),
    { name: "input, its share of the dollars", of: cpmt.split_input },
    { name: "output, its share of the dollars", of: cpmt.split_output },
    { name: "input, all dollars", of: cpmt.input },
    { name: "output, all dollars", of: cpmt.output },
  ];
  const most = Math.max(...cpmt.breakdown.map((part) => part.high), 1e-12);
  return (
    <Section title="Cost per million tokens" note="Dollars per hour over the tokens of requests that met the SLO, idle time included. Two views of input and output: each over its share of the dollars, which is its share of the accelerators' time, or each over all of them.">
      <Table
        rows={rows}
        columns={[
          { head: "per million", text: true, by: (row) => row.name },
          { head: "low", by: (row) => row.of.low, show: dollars },
          { head: "typical", by: (row) => row.of.typical, show: dollars },
          { head: "high", by: (row) => row.of.high, show: dollars },
        ]}
      />
      <h3>Parts of the price of all tokens</h3>
      <div class="bars">
        {cpmt.breakdown.map((part) => (
          <div class="bar-row"><span class="name">{part.name}</span><BandBar band={part} whole={most} /><span class="value wide">{band(part, dollars)}</span></div>
        ))}
      </div>
      <p class="note">
        Capital {band(serving.capex.total_usd, dollars)}; {band(cpmt.usd_per_h, dollars)} an hour. Energy is metered at {power(serving.power.total_w.typical)} with cooling; space is paid for {power(serving.power.provisioned_w.typical)} of provisioned IT power.
      </p>
    </Section>
  );
}

/** Requests that wait for each pool, span after span of the run. */
function Queues({ serving }: { serving: Served["serving"] }) {
  const rows = "queues" in serving ? serving.queues.filter((row) => row.over_time.length > 1) : [];
  const most = Math.max(0, ...rows.flatMap((row) => row.over_time));
  if (most === 0) return null;
  const end = Math.max(...rows.map((row) => row.span_s * row.over_time.length));
  return (
    <Section title="Queue over time" note={rows.map((row) => `${row.pool}: ${count(row.waiting_mean)} wait on average, ${count(row.waiting_peak)} at most, about ${duration(row.peak_s)} after the start`).join("; ")}>
      <Plot
        label="Requests that wait for each pool, over time"
        series={rows.map((row, index) => ({ name: row.pool, color: lineColor(index), dashes: lineDashes(index), points: row.over_time.map((value, span): [number, number] => [(span + 0.5) * row.span_s, value]) }))}
        x={linear(0, end, 8)}
        y={linear(0, most * 1.05, 5)}
        showX={axisTime}
        showY={count}
        titleX="from the first arrival"
        titleY="requests that wait"
        height={220}
        named
      />
    </Section>
  );
}

function Pools({ variant }: { variant: Served }) {
  const { serving } = variant;
  const shares = [
    { key: "prompt" as const, name: "prompts", color: "var(--compute)" },
    { key: "decode" as const, name: "answers", color: "var(--bubble)" },
    { key: "collectives" as const, name: "collectives", color: "var(--bandwidth)" },
  ];
  const busiest = [...serving.replicas.entries()].sort(([, a], [, b]) => b.busy - a.busy).slice(0, 24);
  return (
    <Section title="Where the accelerators' time goes" note="Share of the time from the first request to the last answer; the rest of each bar is idle.">
      <Legend items={shares} />
      <div class="bars">
        {serving.pools.map((pool) => (
          <div class="bar-row">
            <span class="name">{pool.role}: {pool.replicas} on {pool.accelerators} {pool.accelerator}</span>
            <StackedBar whole={1} parts={shares.map(({ key, name, color }) => ({ name, color, value: pool[key], tip: `${name} ${percent(pool[key])}` }))} />
            <span class="value">{percent(pool.prompt + pool.decode + pool.collectives)}{pool.hidden ? `; ${percent(pool.hidden)} of the time collectives run behind it` : ""}</span>
          </div>
        ))}
      </div>
      <details>
        <summary>{busiest.length < serving.replicas.length ? `The busiest ${busiest.length} of ${serving.replicas.length} replicas` : "Each replica"}</summary>
        <Table
          rows={busiest}
          columns={[
            { head: "replica", text: true, cell: ([number, row]) => `${row.pool} ${number}` },
            { head: "busy", by: ([, row]) => row.busy, show: percent },
            { head: "iterations", by: ([, row]) => row.iterations, show: whole },
            { head: "prompt tokens computed", by: ([, row]) => row.input_tokens, show: whole },
            { head: "answer tokens", by: ([, row]) => row.output_tokens, show: whole },
            { head: "cache at most", by: ([, row]) => row.kv_peak_share, show: percent },
          ]}
        />
      </details>
      {serving.links.length > 0 && (
        <details open={(serving.links[0]?.utilization ?? 0) > 0.3}>
          <summary>Links with the most KV transfer</summary>
          <Table
            rows={serving.links}
            columns={[
              { head: "link", text: true, by: (row) => row.name },
              { head: "rate", by: (row) => row.rate_bps, show: bitRate },
              { head: "mean load", by: (row) => row.utilization, show: percent },
            ]}
          />
        </details>
      )}
      {("reuse" in serving.kv ? serving.kv.reuse : []).map((reuse) => (
        <p class="note">
          A prefix that was computed before, of {whole(reuse.prefix_tokens)} tokens as the mean prompt has, is worth loading to {reuse.pool} replicas from {bitRate(reuse.predicted_bps)} on; from {bitRate(reuse.peak_bps)} on if they computed at their peak.
        </p>
      ))}
      <List title="Requests" items={[`${whole(serving.requests.count)} requests; mean prompt ${count(serving.requests.input_tokens_mean)} tokens, mean answer ${count(serving.requests.output_tokens_mean)} tokens`, serving.requests.source, ...(serving.requests.dropped > 0 ? [`${whole(serving.requests.dropped)} refused`] : []), ...(serving.requests.unfinished > 0 ? [`${whole(serving.requests.unfinished)} not answered when the run was ended`] : [])]} />
    </Section>
  );
}

