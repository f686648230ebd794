import { useState } from "preact/hooks";
import { lineColor, lineDashes, partColor } from "../colors";
import { band, capital, count, dollars, duration, percent, times, whole } from "../format";
import { moment, timeScale } from "../operate";
import { BandBar, ButtonRow, Figure, Section, Spelt, Table } from "../parts";
import { Plot } from "../plot";
import type { Band, OperateFigures, OperateVariant, SpreadFigures } from "../result.gen";
import { linear } from "../scales";
import { Heat } from "./heat";

const NONE = "—";
const of = (spread: SpreadFigures | null, name: keyof SpreadFigures, show: (value: number) => string): string => (spread === null ? NONE : show(spread[name]));
const price = (value: Band | null): string => (value === null ? NONE : band(value, dollars));
const windowS = ({ steady }: OperateFigures): number => steady.end_s - steady.start_s;
const CHOSEN = { scenario: "as the scenario gives it", "whole run": "the whole run: no job ends between the first submission and the last", "first to last submission": "from the first submission to the last" };
const spans = (variants: OperateVariant[]): number => Math.max(1, ...variants.map((variant) => variant.operate.span_s));

const CURVES = [
  { name: "jobs in the queue", column: "waiting", show: count, least: 1, most: Infinity },
  { name: "accelerators in use", column: "busy", show: (value: number) => percent(value, 0), least: 1, most: 1 },
  { name: "idle nodes in shared groups", column: "in_shared_groups", show: percent, least: 0.01, most: Infinity },
] as const;

/** Of more variants than this, the chosen one is drawn with those whose useful hour costs least. */
const MOST_CURVES = 6;

const hourly = ({ operate }: OperateVariant): number => operate.usd.per_useful_accelerator_hour?.typical ?? Infinity;

/** One series of the variants over one axis; the chosen one in front. */
function Overlaid({ variants, chosen }: { variants: OperateVariant[]; chosen: number }) {
  const [view, setView] = useState(0);
  const curve = CURVES[view] ?? CURVES[0];
  const span = spans(variants);
  const cheap = [...variants].sort((one, other) => hourly(one) - hourly(other)).slice(0, MOST_CURVES);
  const drawn = variants.length <= MOST_CURVES ? variants : variants.filter((variant, index) => index === chosen || cheap.includes(variant));
  const highest = Math.max(curve.least, ...drawn.flatMap((variant) => variant.operate.series[curve.column]));
  return (
    <>
      <h3>Over time{drawn.length < variants.length ? `: the ${drawn.length} variants with the cheapest useful hour, of ${variants.length}` : ""}</h3>
      <ButtonRow label="Show" names={CURVES.map(({ name }) => name)} chosen={view} choose={setView} />
      <Plot
        label={curve.name}
        x={timeScale(span)}
        y={linear(0, Math.min(highest, curve.most), 4)}
        showX={(value) => moment(value, span)}
        showY={curve.show}
        titleX="time from the first submission"
        titleY={view === 0 ? "jobs" : view === 1 ? "of all accelerators" : "of all nodes"}
        height={220}
        named
        series={drawn.map((variant, index) => ({
          name: variant.name,
          color: lineColor(index),
          dashes: lineDashes(index),
          faint: variant !== variants[chosen],
          points: variant.operate.series.time_s.map((time, at) => [time, variant.operate.series[curve.column][at] ?? 0]),
        }))}
      />
    </>
  );
}

export function OperateComparison({ variants, chosen, choose }: { variants: OperateVariant[]; chosen: number; choose: (index: number) => void }) {
  const prices = variants.map((variant) => variant.operate.usd.per_useful_accelerator_hour);
  const highest = Math.max(...prices.map((value) => value?.high ?? 0), 1e-9);
  return (
    <Section title="Side by side" note={`Figures are of the steady window, ${CHOSEN[variants[0]?.operate.steady.chosen ?? "whole run"]}; the drain after it is left out. Click a row for its details.`}>
      <Table
        rows={variants}
        mark={(row) => row === variants[chosen]}
        columns={[
          { head: "variant", text: true, by: (row) => row.name },
          { head: "jobs done", cell: (row) => `${whole(row.operate.jobs.done)} of ${whole(row.operate.jobs.all)}`, by: (row) => row.operate.jobs.done },
          { head: "queue mean", by: (row) => row.operate.queue_s?.mean, show: duration },
          { head: "free while jobs wait", by: (row) => row.operate.fragmentation.usd_while_jobs_wait.typical, show: dollars },
          { head: "fairness p95", by: (row) => row.operate.finish_time_fairness?.p95, show: times },
          { head: "utilization", by: (row) => row.operate.utilization, show: percent },
          { head: "goodput", by: (row) => row.operate.goodput, show: percent },
          { head: "$/useful GPU-h", by: (row) => row.operate.usd.per_useful_accelerator_hour?.typical, show: dollars },
        ]}
      />
      <Overlaid variants={variants} chosen={chosen} />
      <details open={variants.length <= MOST_CURVES}>
        <summary>$/useful GPU-hour of each variant: low, typical, high</summary>
        <div class="bars">
          {variants.map((variant, index) => (
            <button class="bar-row" aria-pressed={index === chosen} onClick={() => choose(index)}>
              <span class="name">{variant.name}</span>
              {prices[index] ? <BandBar band={prices[index]} whole={highest} /> : <span />}
              <span class="value">{prices[index] ? dollars(prices[index].typical) : NONE}</span>
            </button>
          ))}
        </div>
      </details>
    </Section>
  );
}

export function OperateDetails({ variant }: { variant: OperateVariant }) {
  const figures = variant.operate;
  return (
    <>
      <Summary variant={variant} />
      <Parts figures={figures} />
      <Heat figures={figures} />
      <OverTime figures={figures} />
      <Goodput figures={figures} />
      <Noisy figures={figures} />
      <Services figures={figures} />
      <Draws figures={figures} />
      <Tenants figures={figures} />
      <Sizes figures={figures} />
      <Broken figures={figures} />
    </>
  );
}

function Summary({ variant }: { variant: OperateVariant }) {
  const { jobs, usd, steady, span_s: span, ...figures } = variant.operate;
  return (
    <section>
      <h2>{variant.name}</h2>
      <p class="headline">
        {whole(jobs.done)} of {whole(jobs.all)} jobs done in {duration(span)} on {whole(figures.accelerators)} accelerators of {whole(figures.nodes)} nodes. Figures are of {duration(steady.end_s - steady.start_s)}, {CHOSEN[steady.chosen]}.
      </p>
      {variant.warnings.map((line) => <p class="note"><Spelt words={`${capital(line)}.`} /></p>)}
      <div class="figures">
        <Figure name="Goodput" value={percent(figures.goodput)} under={`utilization ${percent(figures.utilization)}`} />
        <Figure name="ETTR" value={percent(figures.ettr)} under="work over time with nodes" />
        <Figure name="Queue" value={of(figures.queue_s, "mean", duration)} under={`p99 ${of(figures.queue_s, "p99", duration)}`} />
        <Figure name="Completion, p50" value={of(figures.jct_s, "p50", duration)} under={`p99 ${of(figures.jct_s, "p99", duration)}`} />
        <Figure name="Finish-time fairness" value={of(figures.finish_time_fairness, "mean", times)} under={`p95 ${of(figures.finish_time_fairness, "p95", times)}`} />
        <Figure name="$ per useful GPU-hour" value={usd.per_useful_accelerator_hour === null ? NONE : dollars(usd.per_useful_accelerator_hour.typical)} under={price(usd.per_useful_accelerator_hour)} />
        <Figure name="Price of fragmentation" value={dollars(figures.fragmentation.usd_while_jobs_wait.typical)} under={`${percent(figures.fragmentation.idle_while_jobs_wait)} of all time: free while jobs wait`} />
        <Figure name="Cluster for the window" value={dollars(usd.total.typical)} under={band(usd.total, dollars)} />
      </div>
    </section>
  );
}

/** A part of the run that is shorter than this share of it says nothing. */
const LITTLE = 0.001;

/** The steady window, what lies before and after it, and all of the run. */
function Parts({ figures }: { figures: OperateFigures }) {
  const { steady, before, drain, whole: run, usd } = figures;
  const ends = `${whole(steady.running_at_end)} run, ${whole(steady.waiting_at_end)} wait`;
  const window = { ...run, ...steady, utilization: figures.utilization, goodput: figures.goodput, usd: usd.total, usd_per_useful_accelerator_hour: usd.per_useful_accelerator_hour };
  const rest = steady.chosen === "whole run" ? [] : [{ name: "before it", part: before }, { name: "drain after it", part: drain }, { name: "whole run", part: run }];
  const lasting = rest.flatMap(({ name, part }) => (part === null || part.end_s - part.start_s < LITTLE * run.end_s ? [] : [{ name, part, ends: "" }]));
  if (lasting.length < 2) return null;
  const rows = [{ name: "steady window", part: window, ends }, ...lasting];
  return (
    <Section title="Parts of the run" note="While jobs arrive the cluster is as full as they make it; after the last submission it drains. All other figures are of the steady window.">
      <Table
        rows={rows}
        columns={[
          { head: "window", text: true, by: (row) => row.name },
          { head: "from", by: (row) => row.part.start_s, show: duration },
          { head: "to", by: (row) => row.part.end_s, show: duration },
          { head: "utilization", by: (row) => row.part.utilization, show: percent },
          { head: "goodput", by: (row) => row.part.goodput, show: percent },
          { head: "cost", by: (row) => row.part.usd.typical, show: dollars },
          { head: "$/useful GPU-h low – typical – high", cell: (row) => price(row.part.usd_per_useful_accelerator_hour) },
          { head: "jobs at its end", text: true, by: (row) => row.ends },
        ]}
      />
    </Section>
  );
}

function OverTime({ figures }: { figures: OperateFigures }) {
  const { series, steady, span_s: span } = figures;
  const line = (name: string, color: string, values: number[]) => ({ name, color, points: series.time_s.map((time, at): [number, number] => [time, values[at] ?? 0]) });
  const shared = { x: timeScale(span), showX: (value: number) => moment(value, span), titleX: "time from the first submission", height: 220, named: true, at: steady.end_s < span ? steady.end_s : undefined };
  const most = Math.max(1, ...series.waiting, ...series.running);
  const broken = Math.max(0.01, ...series.in_shared_nodes, ...series.in_shared_groups);
  return (
    <Section title="Queue, use and fragmentation over time" note={steady.end_s < span ? "The mark is the end of the steady window." : undefined}>
      <Plot {...shared} label="Jobs over time" titleY="jobs" y={linear(0, most, 4)} showY={count} series={[line("waiting", "var(--bandwidth)", series.waiting), line("running", "var(--accent)", series.running)]} />
      <Plot
        {...shared}
        label="Accelerators over time"
        titleY="of all accelerators"
        y={linear(0, 1, 4)}
        showY={(value) => percent(value, 0)}
        series={[line("in use", "var(--accent)", series.busy), line("free", "var(--compute)", series.idle), line("out of service", "var(--hot)", series.out)]}
      />
      <Plot
        {...shared}
        label="Fragmentation over time"
        titleY="free, and of no use to large jobs; of all"
        y={linear(0, broken, 4)}
        showY={percent}
        series={[
          line("accelerators on shared nodes", "var(--contention)", series.in_shared_nodes),
          line("idle nodes in shared groups", "var(--latency)", series.in_shared_groups),
        ]}
      />
    </Section>
  );
}

/** From all accelerator time down to work. */
function Goodput({ figures }: { figures: OperateFigures }) {
  const order = [...figures.time].reverse().filter((part) => part.name !== "work" && part.share >= 0.00005);
  let left = 1;
  const rows = order.map((part) => {
    left -= part.share;
    return { ...part, from: left };
  });
  const work = { name: "work", share: figures.goodput, from: 0 };
  const hours = (share: number) => `${count((share * figures.accelerators * windowS(figures)) / 3600)} GPU-h`;
  return (
    <Section title="Where the accelerators' time goes" note="From all of it, at the top, down to what was work: the goodput.">
      <div class="falls" role="img" aria-label="Goodput waterfall">
        {[...rows, work].map((row) => (
          <div class="fall" title={`${row.name}: ${percent(row.share, 2)}`}>
            <span class="name">{row.name}</span>
            <div class="track"><span style={{ left: `${100 * row.from}%`, width: `${100 * row.share}%`, background: partColor(row.name) }} /></div>
            <span class="value">{percent(row.share)}<small>{hours(row.share)}</small></span>
          </div>
        ))}
      </div>
    </Section>
  );
}

function Noisy({ figures }: { figures: OperateFigures }) {
  if (figures.slowed_by.length === 0) return null;
  return (
    <Section title="Who slowed whom" note="Jobs that share leafs, and the neighbour that sent most over what they share; the pairs that cost most.">
      <Table
        rows={[...figures.slowed_by]}
        columns={[
          { head: "job", text: true, by: (row) => row.job },
          { head: "slowed most by", text: true, by: (row) => row.by },
          { head: "GPU-hours lost", by: (row) => row.accelerator_hours, show: count },
          { head: "at the typical price", cell: (row) => dollars((row.accelerator_hours * figures.usd.per_h.typical) / figures.accelerators) },
        ]}
      />
    </Section>
  );
}

const GROWS = "queue grows";
const latency = (value: number | null): string => (value === null ? GROWS : duration(value));

/** What users of serving jobs saw while replicas were out. */
function Services({ figures }: { figures: OperateFigures }) {
  return (
    <>
      {figures.services.map((row) => (
        <Section
          title={`Service ${row.name}: ${whole(row.replicas)} replicas of ${whole(row.accelerators)} accelerators`}
          note={`${count(row.rate_per_s)} requests a second, ${percent(row.load, 0)} of what all replicas answer. Over the run: TTFT p99 ${latency(row.ttft_p99_s)}, TPOT p99 ${latency(row.tpot_p99_s)}, ${percent(row.in_time)} within the SLO, ${percent(row.failed, 3)} sent to a replica that was dead.`}
        >
          <Table
            rows={[...row.states]}
            columns={[
              { head: "replicas that answer", cell: (state) => (state.asked === state.answer ? whole(state.answer) : `${whole(state.answer)} (${whole(state.asked)} asked)`) },
              { head: "of the time", cell: (state) => percent(state.time, 2) },
              { head: "TTFT p99", cell: (state) => latency(state.ttft_p99_s) },
              { head: "TPOT p99", cell: (state) => latency(state.tpot_p99_s) },
              { head: "SLO attainment", by: (state) => state.in_time, show: percent },
            ]}
          />
        </Section>
      ))}
    </>
  );
}

/** The same run with other draws of its failures. */
function Draws({ figures }: { figures: OperateFigures }) {
  const { draws } = figures;
  if (draws === null) return null;
  const usd = draws.usd_per_useful_accelerator_hour;
  const mean = usd === null ? NONE : `${dollars(usd.low)} – ${dollars(usd.mean)} – ${dollars(usd.high)}`;
  return (
    <Section title="Other draws of the failures" note={`What hangs on when things fail; all else is the same. A useful GPU-hour at typical prices, low – all draws together – high: ${mean}.`}>
      <Table
        rows={[...draws.by_draw]}
        columns={[
          { head: "seed", text: true, by: (row) => row.seed, show: whole },
          { head: "goodput", by: (row) => row.goodput, show: percent },
          { head: "ETTR", by: (row) => row.ettr, show: percent },
          { head: "$/useful GPU-h", by: (row) => row.usd_per_useful_accelerator_hour, show: dollars },
        ]}
      />
    </Section>
  );
}

function Tenants({ figures }: { figures: OperateFigures }) {
  if (figures.tenants.length < 2) return null;
  return (
    <Section title="Tenants" note="Each pays for the cluster in proportion to the accelerator time that it had. Fairness: completion over that on an equal part of the cluster; above 1 a tenant is worse off.">
      <Table
        rows={[...figures.tenants]}
        columns={[
          { head: "tenant", text: true, by: (row) => row.name },
          { head: "jobs", by: (row) => row.jobs, show: whole },
          { head: "GPU-h", by: (row) => row.accelerator_hours, show: count },
          { head: "useful", by: (row) => row.useful_accelerator_hours, show: count },
          { head: "queue mean", by: (row) => row.queue_s?.mean, show: duration },
          { head: "JCT p50", by: (row) => row.jct_s?.p50, show: duration },
          { head: "fairness mean", by: (row) => row.finish_time_fairness?.mean, show: times },
          { head: "$/useful GPU-h low – typical – high", cell: (row) => price(row.usd_per_useful_accelerator_hour), by: (row) => row.usd_per_useful_accelerator_hour?.typical },
        ]}
      />
    </Section>
  );
}

function Sizes({ figures }: { figures: OperateFigures }) {
  return (
    <Section title="Jobs by size" note="MTBF: hours with nodes for each failure that a job of this size met.">
      <Table
        rows={[...figures.sizes]}
        columns={[
          { head: "accelerators", text: true, by: (row) => row.accelerators },
          { head: "jobs", by: (row) => row.jobs, show: whole },
          { head: "GPU-h", by: (row) => row.accelerator_hours, show: count },
          { head: "queue mean", by: (row) => row.queue_s?.mean, show: duration },
          { head: "slowdown p50", by: (row) => row.slowdown?.p50, show: times },
          { head: "ETTR", by: (row) => row.ettr, show: percent },
          { head: "MTBF", cell: (row) => (row.mtbf_h === null ? NONE : duration(row.mtbf_h * 3600)) },
        ]}
      />
    </Section>
  );
}

function Broken({ figures }: { figures: OperateFigures }) {
  if (figures.failures.faults === 0) return null;
  return (
    <Section title="What broke" note={`${whole(figures.failures.faults)} faults of nodes in service; jobs were hit ${whole(figures.failures.jobs_hit)} times.`}>
      <Table
        rows={[...figures.failures.by_mode]}
        columns={[
          { head: "what", text: true, by: (row) => row.name },
          { head: "faults", by: (row) => row.faults, show: whole },
          { head: "jobs hit", by: (row) => row.jobs_hit, show: whole },
        ]}
      />
    </Section>
  );
}
