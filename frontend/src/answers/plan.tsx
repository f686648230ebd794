/** Which cluster to build: the front with its bands, why not the others, how sure, what it hangs on, what to relax. */

import { useState } from "preact/hooks";
import type { ObjectiveBand, PlanAnswer, PlanConstraint, PlanDesign, PlanObjective, PlanSwing } from "../answers.gen";
import { capital, dollars, duration, percent, whole } from "../format";
import { ButtonRow, Legend, List, Section, Spelt, Table } from "../parts";
import { choose as keep, chosen as kept } from "../place";
import { Scatter, type Dot } from "../scatter";
import { linear } from "../scales";
import { inUnit } from "./units";

/** Rows of a table before the rest is folded. */
const MOST = 12;

/** A factor that moves the lead by less is not drawn. */
const MOVES = 0.001;

const STATES = {
  run: { name: "run on an engine", color: "var(--accent)" },
  "closed form": { name: "closed form alone", color: "var(--other)" },
  missed: { name: "misses a constraint", color: "var(--bandwidth)" },
} as const;

export function PlanView({ answer }: { answer: PlanAnswer }) {
  const designs = [...answer.front, ...answer.runners_up];
  const [design, setDesign] = useState(() => Math.max(0, designs.findIndex((each) => each.variant === kept("design"))));
  const pick = (index: number) => {
    setDesign(index);
    keep("design", designs[index]?.variant ?? null);
  };
  const shown = designs[design] ?? designs[0];
  return (
    <>
      <Front answer={answer} designs={designs} design={design} pick={pick} />
      {shown && <Design answer={answer} design={shown} best={designs[0]} />}
      <Chances answer={answer} designs={designs} design={design} pick={pick} />
      <Verified answer={answer} />
      <Unverified answer={answer} />
      <Tornado answer={answer} />
      <Relax rows={answer.constraints} answer={answer} />
      <Measure answer={answer} />
      <Even answer={answer} />
      <Ports answer={answer} />
      <Ended answer={answer} />
      <Failed answer={answer} />
      <Looked answer={answer} />
    </>
  );
}

const words = (objective: PlanObjective): string => objective.words;
const ends = (band: ObjectiveBand, show: (value: number) => string): string => `${show(band.p10)} to ${show(band.p90)}`;

function axisOf(objectives: PlanObjective[], key: string, other: number): [number, (index: number) => void] {
  const known = objectives.findIndex((one) => one.name === kept(key));
  const [at, set] = useState(known < 0 ? Math.min(other, objectives.length - 1) : known);
  return [at, (index) => { set(index); keep(key, objectives[index]?.name ?? null); }];
}

interface Picked {
  answer: PlanAnswer;
  designs: PlanDesign[];
  design: number;
  pick: (index: number) => void;
}

function Front({ answer, designs, design, pick }: Picked) {
  const { objectives, points } = answer;
  const [atX, setX] = axisOf(objectives, "x", 1);
  const [atY, setY] = axisOf(objectives, "y", 0);
  const [x, y] = [objectives[atX], objectives[atY]];
  if (x === undefined || y === undefined) return null;
  const number = new Map(designs.map((row, index) => [row.variant, index]));
  const dots: Dot[] = points.flatMap((point): Dot[] => {
    const [left, up] = [point.values[atX], point.values[atY]];
    if (left === null || left === undefined || up === null || up === undefined) return [];
    const index = number.get(point.name);
    const row = index === undefined ? undefined : designs[index];
    const band = (name: string): [number, number] | undefined => { const found = row?.front ? row.bands[name] : undefined; return found && [found.p10, found.p90]; };
    return [{
      name: point.name, x: left, y: up, color: STATES[point.state].color, size: row === undefined ? 3 : 5, ringed: row?.front ?? false,
      bandX: band(x.name), bandY: band(y.name), chosen: index === design, choose: index === undefined ? undefined : () => pick(index),
    }];
  }).sort((a, b) => a.size - b.size);
  const span = (values: number[]): [number, number] => {
    const [low, high] = [Math.min(...values), Math.max(...values)];
    const room = (high - low) * 0.05 || Math.abs(high) * 0.05 || 1;
    return [Math.max(low - room, low >= 0 ? 0 : -Infinity), high + room];
  };
  const [rangeX, rangeY] = [span(dots.flatMap((dot) => [dot.x, ...(dot.bandX ?? [])])), span(dots.flatMap((dot) => [dot.y, ...(dot.bandY ?? [])]))];
  return (
    <Section title={`${capital(y.words)} against ${x.words}`} note="No design beats a ringed one in every objective. Whiskers are 80 % intervals, of prices and of the model's error. Click a point, or reach it with Tab and press Enter.">
      {objectives.length > 1 && (
        <div class="axes">
          <ButtonRow label="Y axis" names={objectives.map(words)} chosen={atY} choose={setY} />
          <ButtonRow label="X axis" names={objectives.map(words)} chosen={atX} choose={setX} />
        </div>
      )}
      <Legend items={[...new Set(points.map((point) => point.state))].map((state) => STATES[state])} />
      <Scatter label={`${y.words} against ${x.words}, ${dots.length} designs`} dots={dots} x={linear(...rangeX, 7)} y={linear(...rangeY, 6)} showX={inUnit(x.unit)} showY={inUnit(y.unit)} titleX={words(x)} titleY={words(y)} />
    </Section>
  );
}

function Design({ answer, design, best }: { answer: PlanAnswer; design: PlanDesign; best: PlanDesign | undefined }) {
  const layouts = Object.entries(design.layouts);
  const first = answer.objectives[0];
  return (
    <Section title={design.variant} note={design.variant === best?.variant ? "The best design." : `Why not: ${design.why_not || "it is equal to the best"}${design.beaten_by ? `; ${design.beaten_by} beats it in everything` : ""}.`}>
      <Table
        rows={answer.objectives}
        columns={[
          { head: "objective", text: true, by: (row) => row.words },
          { head: "typical", cell: (row) => inUnit(row.unit)(design.objectives[row.name]) },
          { head: "80 % interval", cell: (row) => { const found = design.bands[row.name]; return found ? ends(found, inUnit(row.unit)) : "—"; } },
          { head: "compared with the best", cell: (row) => against(design.objectives[row.name], best?.objectives[row.name]) },
          { head: "chance of best", cell: (row) => { const found = design.probability_best_by[row.name]; return found === undefined ? "—" : percent(found); } },
        ]}
      />
      {first && layouts.length > 1 && (
        <Table rows={Object.entries(design.by_demand)} columns={[{ head: "demand", text: true, by: ([name]) => name }, ...answer.objectives.map((one) => ({ head: one.name, cell: ([, row]: [string, Record<string, number | null>]) => inUnit(one.unit)(row[one.name]) }))]} />
      )}
      <List title={`Layout, found by ${design.engine === "analytic" ? "the closed form" : `the engine ${design.engine}`}`} items={layouts.map(([demand, layout]) => (layouts.length > 1 ? `${demand}: ${layout}` : layout))} />
    </Section>
  );
}

const against = (value: number | undefined, best: number | undefined): string => {
  if (value === undefined || best === undefined || best === 0) return "—";
  const more = value / best - 1;
  return Math.abs(more) < 5e-4 ? "same" : `${more > 0 ? "+" : ""}${percent(more)}`;
};

function Chances({ answer, designs, design, pick }: Picked) {
  const [all, showAll] = useState(false);
  if (designs.every((row) => Object.keys(row.bands).length === 0)) return null;
  const by = answer.objectives;
  const [at, set] = axisOf(by, "by", 0);
  const name = by[at]?.name ?? "";
  const chance = (row: PlanDesign): number => row.probability_best_by[name] ?? 0;
  const order = designs.map((_, index) => index).sort((a, b) => chance(designs[b] as PlanDesign) - chance(designs[a] as PlanDesign));
  const rows = all ? order : order.slice(0, MOST);
  return (
    <Section title="Chance of being best, and why not the others" note="Over all draws of prices and of the model's error.">
      {by.length > 1 && <ButtonRow label="Best by" names={by.map(words)} chosen={at} choose={set} />}
      <div class="bars">
        {rows.map((index) => {
          const row = designs[index] as PlanDesign;
          return (
            <button class="bar-row why" aria-pressed={index === design} onClick={() => pick(index)}>
              <span class="name">{row.variant}</span>
              <span class="gain"><span style={{ width: `${100 * chance(row)}%` }} /></span>
              <span class="value">{percent(chance(row), 0)}</span>
              <span class="reason">{row.why_not || (row.variant === answer.best ? "the best" : "equal to the best")}</span>
            </button>
          );
        })}
      </div>
      {order.length > rows.length && <p class="more"><button onClick={() => showAll(true)}>Show all {order.length}</button></p>}
    </Section>
  );
}

function Verified({ answer }: { answer: PlanAnswer }) {
  const [first] = answer.objectives;
  const { verified } = answer;
  if (verified === null || verified.rivals.length === 0 || first === undefined) return null;
  const share = verified.share_of_step < 1 ? `, ${percent(verified.share_of_step)} of a step` : "";
  const finer = verified.packets_core_s === null ? "" : ` Whole steps of all as packets would take a core about ${inUnit("s")(verified.packets_core_s)} (plan.effort.verify).`;
  return (
    <Section title={`Verified on ${verified.engine}${share}`} folded note={`The nearest rivals ran on the same engine${verified.stands ? "" : ", and one of them is better there"}.${finer}`}>
      <Table
        rows={verified.rivals}
        columns={[
          { head: "rival", text: true, by: (row) => row.variant },
          { head: first.name, cell: (row) => inUnit(first.unit)(row.value) },
          { head: "behind the best", cell: (row) => percent(row.behind, 2) },
        ]}
      />
    </Section>
  );
}

function Unverified({ answer }: { answer: PlanAnswer }) {
  const [first] = answer.objectives;
  if (answer.unverified.length === 0 || first === undefined) return null;
  return (
    <Section title="Designs that did not run and may win" folded note="No design of these kinds ran on an engine. By the closed form, within its error, the best of each may beat the choice. A larger effort runs them.">
      <Table
        rows={answer.unverified.slice(0, MOST)}
        columns={[
          { head: "design", text: true, by: (row) => row.variant },
          { head: `${first.name} in closed form`, cell: (row) => inUnit(first.unit)(row.value) },
          { head: "may be ahead by", by: (row) => row.ahead, show: percent },
        ]}
      />
    </Section>
  );
}

function Tornado({ answer }: { answer: PlanAnswer }) {
  const moving = answer.tornado.filter((row) => Math.abs(row.lead_high - row.lead_low) >= MOVES);
  const rows = moving.slice(0, MOST);
  if (answer.tornado.length === 0) return null;
  if (rows.length === 0) return <Section title="Sensitivity"><p>Nothing that was varied moves the lead of {answer.best} by {percent(MOVES)}.</p></Section>;
  const values = rows.flatMap((row) => [row.lead_low, row.lead_high, 0]);
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const at = (value: number): number => (100 * (value - low)) / Math.max(high - low, 1e-12);
  const turns = rows.some((row) => Math.min(row.lead_low, row.lead_high) < 0);
  return (
    <Section
      title="Sensitivity"
      note={<>The lead of {answer.best} over the next design, with one input at the low and the high end of its range, all others typical. {turns ? "Left of the line another design is better; its name stands there." : "Nothing among these makes another design better."}</>}
    >
      <div class="falls tornado">
        {rows.map((row) => <SwingRow row={row} at={at} best={answer.best ?? ""} />)}
      </div>
      {answer.tornado.length > moving.length && <p class="muted">{answer.tornado.length - moving.length} further ones move it by less than {percent(MOVES)}.</p>}
    </Section>
  );
}

function SwingRow({ row, at, best }: { row: PlanSwing; at: (value: number) => number; best: string }) {
  const [left, right] = [Math.min(row.lead_low, row.lead_high), Math.max(row.lead_low, row.lead_high)];
  const other = row.lead_low < row.lead_high ? row.best_low : row.best_high;
  return (
    <div class="fall">
      <span class="name">{row.factor}</span>
      <span class="track" title={`low end ${percent(row.lead_low)}, high end ${percent(row.lead_high)}`}>
        {left < 0 && <span style={{ left: `${at(left)}%`, width: `${at(Math.min(right, 0)) - at(left)}%`, background: "var(--bandwidth)" }} />}
        {right > 0 && <span style={{ left: `${at(Math.max(left, 0))}%`, width: `${at(right) - at(Math.max(left, 0))}%`, background: "var(--accent)" }} />}
        <i class="zero" style={{ left: `${at(0)}%` }} />
      </span>
      <span class="value">{percent(left)} to {percent(right)}{other !== best && <small>{other}</small>}</span>
    </div>
  );
}

function Relax({ rows, answer }: { rows: PlanConstraint[]; answer: PlanAnswer }) {
  if (rows.length === 0) return null;
  const share = (value: number | null): string => (value === null ? "—" : percent(value));
  const [first] = rows;
  const gains = first !== undefined && (first.gain_without ?? 0) > 0;
  return (
    <Section
      title="Constraints"
      folded
      note={gains ? <>Without <strong>{first.name}</strong> {answer.objectives[0]?.name} would be {percent(first.gain_without ?? 0)} better{first.best_without ? `, with ${first.best_without}` : ""}.</> : "No single constraint excludes a better design."}
    >
      <Table
        rows={rows}
        columns={[
          { head: "constraint", text: true, by: (row) => row.name },
          { head: "limit", cell: (row) => limit(row) },
          { head: "designs that miss it", by: (row) => row.missed_by, show: whole },
          { head: "gain without it", cell: (row) => share(row.gain_without) },
          { head: "a tenth looser", cell: (row) => share(row.gain_a_tenth_looser) },
          { head: "best without it", text: true, by: (row) => row.best_without ?? "—" },
        ]}
      />
    </Section>
  );
}

const UNITS: Record<string, string> = { budget: "USD", power: "W", provisioned: "W", deadline: "s" };
const limit = (row: PlanConstraint): string => (typeof row.limit === "number" ? inUnit(UNITS[row.name] ?? "")(row.limit) : row.limit.join(", "));

function Measure({ answer }: { answer: PlanAnswer }) {
  const rows = answer.measure_first.filter((row) => row.gain > 0);
  if (rows.length === 0) return null;
  return (
    <Section title="What to measure first" folded note={`Expected gain of knowing it before choosing, as a share of ${answer.objectives[0]?.words ?? "the first objective"}.`}>
      <Table
        rows={rows}
        columns={[
          { head: "what", text: true, by: (row) => row.factor },
          { head: "kind", text: true, by: (row) => row.kind },
          { head: "gain", cell: (row) => percent(row.gain, 2) },
          { head: "changes the choice", by: (row) => row.changes, show: percent },
        ]}
      />
    </Section>
  );
}

function Even({ answer }: { answer: PlanAnswer }) {
  if (answer.break_even.length === 0) return null;
  return (
    <Section title="Break-even prices" folded note="One price changes, all others are typical.">
      <Table
        rows={answer.break_even.slice(0, MOST)}
        columns={[
          { head: "then better", text: true, by: (row) => row.choice },
          { head: "where one", text: true, by: (row) => row.part },
          { head: "costs", cell: (row) => `${row.dearer ? "more" : "less"} than ${dollars(row.even_usd)}` },
          { head: "today", by: (row) => row.price_usd, show: dollars },
        ]}
      />
    </Section>
  );
}

function Ports({ answer }: { answer: PlanAnswer }) {
  if (answer.port_prices.length === 0) return null;
  return (
    <Section title="Break-even price of the network" folded note="Cost of all parts of the network per NIC of an accelerator; the first design keeps its prices.">
      <Table
        rows={answer.port_prices.slice(0, MOST)}
        columns={[
          { head: "then better", text: true, by: (row) => row.choice },
          {
            head: "where a NIC's part costs",
            cell: (row) => (row.even_usd_per_port === null ? "not at any price" : `less than ${dollars(row.even_usd_per_port)}`),
          },
          { head: "today", by: (row) => row.usd_per_port, show: dollars },
        ]}
      />
    </Section>
  );
}

/** Designs whose job a fault of the scenario ends: chosen only where every job dies. */
function Ended({ answer }: { answer: PlanAnswer }) {
  if (answer.ended.length === 0) return null;
  return (
    <Section title="Designs whose job fails" folded>
      <Table
        rows={answer.ended.slice(0, MOST)}
        columns={[
          { head: "design", text: true, by: (row) => row.variant },
          { head: "by", text: true, by: (row) => row.fault },
          { head: "lost once", by: (row) => row.lost_s, show: duration },
          { head: "judged by", text: true, by: (row) => row.engine },
        ]}
      />
    </Section>
  );
}

function Failed({ answer }: { answer: PlanAnswer }) {
  if (answer.failed.length === 0) return null;
  return (
    <Section title="Designs that are not possible" folded>
      <Table
        rows={answer.failed.slice(0, MOST)}
        columns={[
          { head: "designs", by: (row) => row.designs, show: whole },
          { head: "on", text: true, by: (row) => row.engine },
          { head: "why", text: true, cell: (row) => <span class="source"><Spelt words={row.error} /></span> },
          { head: "such as", text: true, by: (row) => row.such_as, wide: true },
        ]}
      />
    </Section>
  );
}

function Looked({ answer }: { answer: PlanAnswer }) {
  const { designs, in_closed_form: seen, demands, layouts, flow, serving, packet, closed_form: closed } = answer.looked_at;
  const runs = serving > 0 ? `${whole(serving)} runs of requests` : `${whole(flow)} runs on flow, ${whole(packet)} on packets`;
  return (
    <p class="muted">
      {whole(designs)} designs{seen < designs ? `, ${whole(seen)} looked at` : ""}{demands > 1 ? ` under ${demands} demands` : ""}, {whole(layouts)} layouts in closed form, {runs}.
      {closed.of > 0 ? ` The closed form against an engine, over ${closed.of}: mean ${percent(closed.mean)}, spread ${percent(closed.spread)}.` : ""} Seed {answer.seed}.
    </p>
  );
}
