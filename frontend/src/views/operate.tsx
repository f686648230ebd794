import { lineColor, lineDashes } from "../colors";
import { band, count, dollars, duration, percent, times, whole } from "../format";
import { moment, partColor, timeScale } from "../operate";
import { BandBar, Figure, Section, Table } from "../parts";
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

type Column = "waiting" | "busy" | "in_shared_groups";

/** A column of the series of every variant over one axis; the chosen one in front. */
function Overlaid({ variants, chosen, column, title, show, most }: { variants: OperateVariant[]; chosen: number; column: Column; title: string; show: (value: number) => string; most: number }) {
  const span = spans(variants);
  return (
    <>
      <h3>{title}</h3>
      <Plot
        label={title}
        x={timeScale(span)}
        y={linear(0, most, 4)}
        showX={(value) => moment(value, span)}
        showY={show}
        titleX="time from the first submission"
        titleY=""
        height={220}
        named
        series={variants.map((variant, index) => ({
          name: variant.name,
          color: lineColor(index),
          dashes: lineDashes(index),
          faint: index !== chosen,
          points: variant.operate.series.time_s.map((time, at) => [time, variant.operate.series[column][at] ?? 0]),
        }))}
      />
    </>
  );
}

export function OperateComparison({ variants, chosen, choose }: { variants: OperateVariant[]; chosen: number; choose: (index: number) => void }) {
  const prices = variants.map((variant) => variant.operate.usd.per_useful_accelerator_hour);
  const dearest = Math.max(...prices.map((value) => value?.high ?? 0), 1e-9);
  const broken = Math.max(0.01, ...variants.flatMap((variant) => variant.operate.series.in_shared_groups));
  const longest = Math.max(1, ...variants.flatMap((variant) => variant.operate.series.waiting));
  return (
    <Section title="Side by side" note={`Figures are of the steady window, ${CHOSEN[variants[0]?.operate.steady.chosen ?? "whole run"]}; the drain after it is left out. Click a row for its details.`}>
      <h3>Dollars per useful accelerator-hour: low, typical, high</h3>
      <div class="bars">
        {variants.map((variant, index) => (
          <button class="bar-row" aria-pressed={index === chosen} onClick={() => choose(index)}>
            <span class="name">{variant.name}</span>
            {prices[index] ? <BandBar band={prices[index]} whole={dearest} /> : <span />}
            <span class="value">{prices[index] ? dollars(prices[index].typical) : NONE}</span>
          </button>
        ))}
      </div>
      <Overlaid variants={variants} chosen={chosen} column="waiting" title="Jobs in the queue" show={count} most={longest} />
      <Overlaid variants={variants} chosen={chosen} column="busy" title="Accelerators in use, of all" show={(value) => percent(value, 0)} most={1} />
      <Overlaid variants={variants} chosen={chosen} column="in_shared_groups" title="Fragmentation: idle nodes of groups that are not idle altogether, of all nodes" show={percent} most={broken} />
      <Table
        rows={variants}
        mark={(row) => row === variants[chosen]}
        columns={[
          { head: "variant", text: true, by: (row) => row.name },
          { head: "jobs done", cell: (row) => `${whole(row.operate.jobs.done)} of ${whole(row.operate.jobs.all)}` },
          { head: "queue mean", cell: (row) => of(row.operate.queue_s, "mean", duration) },
          { head: "free while jobs wait", by: (row) => row.operate.fragmentation.usd_while_jobs_wait.typical, show: dollars },
          { head: "fairness p95", cell: (row) => of(row.operate.finish_time_fairness, "p95", times) },
          { head: "utilization", by: (row) => row.operate.utilization, show: percent },
          { head: "goodput", by: (row) => row.operate.goodput, show: percent },
          { head: "ETTR", by: (row) => row.operate.ettr, show: percent },
          { head: "$/useful GPU-h", cell: (row) => (row.operate.usd.per_useful_accelerator_hour === null ? NONE : dollars(row.operate.usd.per_useful_accelerator_hour.typical)) },
        ]}
      />
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
      {variant.warnings.map((line) => <p class="note">{`${line.charAt(0).toUpperCase()}${line.slice(1)}.`}</p>)}
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

/** The steady window, what lies before and after it, and all of the run. */
function Parts({ figures }: { figures: OperateFigures }) {
  const { steady, before, drain, whole: run, usd } = figures;
  const ends = `${whole(steady.running_at_end)} run, ${whole(steady.waiting_at_end)} wait`;
  const window = { ...run, ...steady, utilization: figures.utilization, goodput: figures.goodput, usd: usd.total, usd_per_useful_accelerator_hour: usd.per_useful_accelerator_hour };
  const rest = steady.chosen === "whole run" ? [] : [{ name: "before it", part: before }, { name: "drain after it", part: drain }, { name: "whole run", part: run }];
  const rows = [{ name: "steady window", part: window, ends }, ...rest.flatMap(({ name, part }) => (part === null ? [] : [{ name, part, ends: "" }]))];
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
  const shared = { x: timeScale(span), showX: (value: number) => moment(value, span), titleX: steady.end_s < span ? "time from the first submission; the mark is the end of the steady window" : "time from the first submission", height: 220, named: true, at: steady.end_s < span ? steady.end_s : undefined };
  const most = Math.max(1, ...series.waiting, ...series.running);
  const broken = Math.max(0.01, ...series.in_shared_nodes, ...series.in_shared_groups);
  return (
    <Section title="Queue, use and fragmentation over time">
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
          { head: "queue mean", cell: (row) => of(row.queue_s, "mean", duration) },
          { head: "JCT p50", cell: (row) => of(row.jct_s, "p50", duration) },
          { head: "fairness mean", cell: (row) => of(row.finish_time_fairness, "mean", times) },
          { head: "$/useful GPU-h low – typical – high", cell: (row) => price(row.usd_per_useful_accelerator_hour) },
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
          { head: "queue mean", cell: (row) => of(row.queue_s, "mean", duration) },
          { head: "slowdown p50", cell: (row) => of(row.slowdown, "p50", times) },
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
