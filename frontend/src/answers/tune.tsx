/** Settings that make a step shorter: as a diff, judged on what the search has not seen. */

import { useState } from "preact/hooks";
import type { KindGain, TailChange, TimesCurve, TuneAnswer, TuneTrial, UnseenCase, UnseenGain } from "../answers.gen";
import { duration, microseconds, percent, tick, whole } from "../format";
import { ButtonRow, Legend, Section, Spelt, Table } from "../parts";
import { choose as keep, chosen as kept } from "../place";
import { Plot } from "../plot";
import { linear, logarithmic } from "../scales";

const MOST = 24;

/** An answer whose settings were judged: all but one that was stopped before. */
type Judged = TuneAnswer & { unseen: UnseenGain };

const judged = (answer: TuneAnswer): answer is Judged => answer.unseen !== null;

export function TuneView({ answer }: { answer: TuneAnswer }) {
  const known = judged(answer);
  return (
    <>
      {known && <Gains answer={answer} />}
      <Difference answer={answer} />
      {known && <Kinds answer={answer} />}
      {known && <Tail answer={answer} />}
      {known && <Unseen answer={answer} />}
      <Trials answer={answer} />
      {known && <Files answer={answer} />}
    </>
  );
}

const signed = (share: number): string => `${share > 0 ? "+" : ""}${percent(share)}`;

const said = (value: unknown): string => (value === null || value === undefined ? "default" : typeof value === "object" ? JSON.stringify(value) : String(value));

function Difference({ answer }: { answer: TuneAnswer }) {
  const { changes } = answer;
  if (changes.length === 0) return null;
  return (
    <Section title="Settings">
      <pre class="diff" tabIndex={0}>
        {changes.map((change) => (
          <>
            <span class="gone">- {change.key}: {said(change.before)}{"\n"}</span>
            <span class="new">+ {change.key}: {said(change.after)}{"\n"}</span>
          </>
        ))}
      </pre>
      {changes.length > 1 && (
        <Table
          rows={changes}
          columns={[
            { head: "change", text: true, by: (row) => row.key },
            { head: "it alone", cell: (row) => (row.alone === null ? "—" : signed(-row.alone)) },
            { head: "all but it", cell: (row) => (row.without === null ? "—" : signed((1 - answer.seen.gain) * (1 + row.without) - 1)) },
            { head: "all", cell: () => signed(-answer.seen.gain) },
          ]}
        />
      )}
      {changes.length > 1 && <p class="muted">Mean step against as written, on the draws of the search.</p>}
    </Section>
  );
}

const KINDS: Record<KindGain["kind"], string> = { draw: "draws of the hashes, alone", load: "draws under others' load", job: "other jobs, with a neighbour" };

/** The gain by kind of what was not seen. */
function Kinds({ answer }: { answer: Judged }) {
  const { unseen } = answer;
  if (answer.changes.length === 0) return null;
  const rows = [...unseen.kinds.map((one) => ({ name: KINDS[one.kind], ...one })), { name: "all of them", kind: "all", count: unseen.cases.length, gain: unseen.gain, low: unseen.low, high: unseen.high }];
  return (
    <Section title="Test cases" note="The search did not see these cases. Other jobs have another model, parallelism and sequence on the same cluster, with the bursts of a neighbour.">
      <Table
        rows={rows}
        mark={(row) => row.kind === "all"}
        columns={[
          { head: "unseen", text: true, by: (row) => row.name },
          { head: "cases", cell: (row) => String(row.count) },
          { head: "steps", cell: (row) => signed(-row.gain) },
          { head: `${percent(unseen.confidence, 0)} interval`, cell: (row) => (row.low === null || row.high === null ? "—" : `${signed(-row.high)} to ${signed(-row.low)}`) },
        ]}
      />
    </Section>
  );
}

const BEFORE = "var(--other)";
const AFTER = "var(--accent)";
const WHAT: Record<TailChange["what"], string> = { collectives: "collectives", flows: "flows between NICs" };

interface Change { name: string; before: string; after: string; change: number; low: number; high: number }

/** The step and every tail: the change of its mean with its interval, on one axis. */
function Gains({ answer }: { answer: Judged }) {
  const { unseen } = answer;
  if (answer.changes.length === 0 || unseen.tails.length === 0) return null;
  const mean = (values: number[]) => Math.exp(values.reduce((sum, value) => sum + Math.log(value), 0) / values.length);
  const step = { name: "step", before: duration(mean(unseen.cases.map((one) => one.default_s))), after: duration(mean(unseen.cases.map((one) => one.tuned_s))), change: -unseen.gain, low: -unseen.high, high: -unseen.low };
  const rows: Change[] = [step, ...unseen.tails.map((one) => ({ name: `${WHAT[one.what]}, ${one.tail}`, before: microseconds(one.before_us), after: microseconds(one.after_us), change: -one.gain, low: -one.high, high: -one.low }))];
  const bounds = rows.flatMap(({ low, high }) => [low, high]);
  const axis = linear(Math.min(0, ...bounds) * 1.05, Math.max(0.02, ...bounds) * 1.05, 6);
  const at = (value: number) => `${100 * axis.at(value)}%`;
  return (
    <Section title="Change of the step" note={`Change of the mean over ${unseen.cases.length} unseen cases, pair by pair; the bar is its ${percent(unseen.confidence, 0)} interval (Student; of the tails in logarithms). Before and after are geometric means. Below 0 is shorter.`}>
      <div class="changes">
        {rows.map((row) => (
          <div class="bar-row change">
            <span class="name">{row.name}</span>
            <span class="band" title={`${signed(row.low)} to ${signed(row.high)}`}>
              <i class="zero" style={{ left: at(0) }} />
              <i class="span" style={{ left: at(row.low), width: `${100 * (axis.at(row.high) - axis.at(row.low))}%` }} />
              <i class="tick" style={{ left: at(row.change) }} />
            </span>
            <span class="value">{signed(row.change)} <small>{row.before} → {row.after}</small></span>
          </div>
        ))}
        <div class="bar-row change axis" aria-hidden="true">
          <span />
          <span class="marks">{axis.ticks.map((value) => <small style={{ left: at(value) }}>{signed(Math.abs(value) < 1e-9 ? 0 : value)}</small>)}</span>
          <span />
        </div>
      </div>
    </Section>
  );
}

/** The tail of what was sent: share that took longer, before and after. */
function Tail({ answer }: { answer: Judged }) {
  const { curves, slice, cases } = answer.unseen;
  const [at, set] = useState(Math.max(0, curves.findIndex(({ what }) => what === (kept("tail") ?? "flows"))));
  const curve = curves[at];
  if (answer.changes.length === 0 || curve === undefined) return null;
  const sliced = slice > 1 && curve.what === "flows" ? ` One byte in ${whole(slice)} was simulated: times are of such slices.` : "";
  const same = curve.before_count === curve.after_count;
  const number = same ? `${whole(curve.before_count)} ${WHAT[curve.what]} of ${cases.length} cases.` : `${whole(curve.before_count)} ${WHAT[curve.what]} before, ${whole(curve.after_count)} smaller ones after: compare their times with care, those of collectives without.`;
  return (
    <Section title="The tail of completion times" note={`${number}${sliced}`}>
      <ButtonRow label="Show" names={curves.map(({ what }) => WHAT[what])} chosen={at} choose={(index) => { set(index); keep("tail", curves[index]?.what ?? null); }} />
      <Legend items={[{ name: "as written", color: BEFORE }, { name: "as found", color: AFTER }]} />
      <TailPlot curve={curve} />
    </Section>
  );
}

function TailPlot({ curve }: { curve: TimesCurve }) {
  const least = 0.5 / Math.max(curve.before_count, curve.after_count);
  const floor = Math.max(1e-5, least);
  const points = (rows: [number, number][]): [number, number][] => rows.map(([us, share]) => [us, Math.max(share, floor)]);
  const times = [...curve.before, ...curve.after].map(([us]) => us).filter((us) => us > 0);
  return (
    <Plot
      label="Share that takes longer, before and after"
      series={[{ name: "as written", color: BEFORE, points: points(curve.before) }, { name: "as found", color: AFTER, points: points(curve.after) }]}
      steps
      after="none"
      x={logarithmic(Math.min(...times) * 0.9, Math.max(...times) * 1.1)}
      y={logarithmic(floor, 1)}
      showX={tick}
      showY={(share) => percent(share, share < 0.0001 ? 3 : share < 0.01 ? 2 : 0)}
      titleX="completion time"
      titleY="share that takes longer"
    />
  );
}

/** Before and after of every case, joined by a line. */
function Unseen({ answer }: { answer: Judged }) {
  const cases = [...answer.unseen.cases].sort((a, b) => Number(a.kind === "job") - Number(b.kind === "job") || a.load - b.load || a.seed - b.seed);
  const longest = Math.max(...cases.flatMap((one) => [one.default_s, one.tuned_s]), 1e-12);
  const at = (value: number) => `${(100 * value) / longest}%`;
  const name = (one: UnseenCase) => one.job || `${one.load > 0 ? `${percent(one.load, 0)} load of others` : "alone"}, draw ${one.seed}`;
  return (
    <Section title="Before and after, case by case">
      <Legend items={[{ name: "as written", color: BEFORE }, { name: "as found", color: AFTER }]} />
      <div class="bars">
        {cases.map((one) => (
          <div class="bar-row long">
            <span class="name" title={name(one)}>{name(one)}</span>
            <span class="twin" title={`${duration(one.default_s)} as written, ${duration(one.tuned_s)} as found`}>
              <i style={{ width: at(one.default_s), background: BEFORE }} />
              <i style={{ width: at(one.tuned_s), background: AFTER }} />
            </span>
            <span class="value">{duration(one.tuned_s)} <small>{signed(one.tuned_s / one.default_s - 1)}</small></span>
          </div>
        ))}
      </div>
    </Section>
  );
}

const words = (trial: TuneTrial): string => Object.entries(trial.settings).map(([key, value]) => `${key} ${said(value)}`).join(", ") || "as written";

function Trials({ answer }: { answer: TuneAnswer }) {
  const keys = ["all", ...new Set(answer.trials.flatMap((trial) => Object.keys(trial.settings)))];
  const [at, set] = useState(Math.max(0, keys.indexOf(kept("key") ?? "all")));
  const rows = answer.trials.filter((trial) => at === 0 || keys[at]! in trial.settings).sort((a, b) => (a.change ?? Infinity) - (b.change ?? Infinity) || b.draws - a.draws);
  return (
    <Section title="Trials" folded note="Settings that ran together, compared with the scenario as written on the same draws. The better half went on to the next draw.">
      <ButtonRow label="Setting" names={keys} chosen={at} choose={(index) => { set(index); keep("key", index === 0 ? null : (keys[index] ?? null)); }} />
      <Table
        rows={rows.slice(0, MOST)}
        mark={(row) => row.kept}
        columns={[
          { head: "settings", text: true, cell: words },
          { head: "draws", cell: (row) => String(row.draws) },
          { head: "against as written", cell: (row) => (row.change === null ? "—" : signed(row.change)) },
          { head: "result", text: true, cell: (row) => (row.kept ? "found" : row.error && <span class="source"><Spelt words={row.error} /></span>) },
        ]}
      />
      {rows.length > MOST && <p class="muted">and {rows.length - MOST} more, all slower</p>}
    </Section>
  );
}

function Files({ answer }: { answer: TuneAnswer }) {
  if (answer.changes.length === 0) return null;
  return (
    <Section title="Files for NCCL">
      <h3>NCCL's environment</h3>
      <pre tabIndex={0}>{answer.environment}</pre>
      {answer.tuner.trim().split("\n").length > 1 && <><h3>NCCL's tuner plugin</h3><pre tabIndex={0}>{answer.tuner}</pre></>}
    </Section>
  );
}
