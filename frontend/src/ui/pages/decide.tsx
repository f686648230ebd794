/** What to buy when prices are others than today: prices moved by hand, and where the choice turns. */

import { useEffect, useState } from "preact/hooks";
import { band, dollars, fixed, percent, whole as inWords } from "../../format";
import { BandBar, Section, Table } from "../../parts";
import { choose, chosen } from "../../place";
import type { KnownPrice, PriceTurn, Repriced, VariantPrice } from "../api.gen";
import { api } from "../api";

/** How an assumption is called and written. */
const WORDS: Record<string, [label: string, show: (value: number) => string]> = {
  accelerators: ["Accelerators", (value) => `${fixed(value, 2)} x`],
  servers: ["Servers", (value) => `${fixed(value, 2)} x`],
  network: ["Network", (value) => `${fixed(value, 2)} x`],
  storage: ["Storage", (value) => `${fixed(value, 2)} x`],
  electricity_usd_per_kwh: ["Electricity", (value) => `$${fixed(value, 3)}/kWh`],
  cost_of_capital: ["Cost of capital", (value) => `${percent(value)} a year`],
  life_years: ["Economic life", (value) => `${fixed(value, 1)} years`],
  pue: ["PUE", (value) => fixed(value, 2)],
  space_usd_per_kw_month: ["Space", (value) => `$${fixed(value, 0)}/kW-month`],
  operations: ["Operations", (value) => `${percent(value)} of capital a year`],
  installation: ["Installation", (value) => `${percent(value)} of hardware`],
};
const word = (name: string): string => WORDS[name]?.[0] ?? name;
const written = (name: string, value: number): string => WORDS[name]?.[1](value) ?? String(value);

/** Every factor moves from a quarter of today's price to four times. */
const FACTOR = 4;
const TURNS = 8;

type Changes = Record<string, number>;

const fromAddress = (): Changes =>
  Object.fromEntries((chosen("prices") ?? "").split(",").filter((each) => each.includes(":")).map((each) => {
    const [name = "", value = ""] = each.split(":");
    return [name, Number(value)];
  }));

export function DecidePage() {
  const runs = (chosen("runs") ?? "").split(",").filter((name) => name !== "");
  const [changes, setChanges] = useState<Changes>(fromAddress);
  const [found, setFound] = useState<Repriced>();
  const [error, setError] = useState<string>();
  const key = JSON.stringify(changes);
  useEffect(() => {
    const ended = new AbortController();
    choose("prices", Object.entries(changes).map(([name, value]) => `${name}:${value}`).join(",") || null);
    api.prices(runs, changes, ended.signal).then(
      (answer) => { setFound(answer); setError(undefined); },
      (problem: Error) => ended.signal.aborted || setError(problem.message),
    );
    return () => ended.abort();
  }, [runs.join(","), key]);
  if (found === undefined) return error === undefined ? <p class="muted" role="status">reading prices</p> : <p class="failure">{error}. <a href="#/">To the runs</a></p>;
  return (
    <>
      <h1>At other prices</h1>
      <p class="muted">Tokens an hour are those of the runs; dollars an hour are worked out anew. Nothing is simulated again, so what a price would make one build differently is not in it.</p>
      {error && <p class="fault" role="alert">{error}</p>}
      <Conclusion found={found} changes={changes} />
      <div class="pair">
        <Sliders found={found} changes={changes} set={setChanges} />
        <Bars variants={found.variants} />
      </div>
      {found.variants.length > 1 && <Turns turns={found.turns.slice(0, TURNS)} best={cheapest(found.variants)?.name ?? ""} />}
    </>
  );
}

const cheapest = (variants: VariantPrice[]): VariantPrice | undefined => [...variants].sort((a, b) => a.cpmt.typical - b.cpmt.typical)[0];

const list = new Intl.ListFormat("en");
const named = (names: string[]): string => list.format(names).replace(/, and /, " and ");

/** Typical costs that differ by less are equal within what prices are known, as in `measure/verdict.py`. */
const PRICED_ALIKE = 0.02;

function Conclusion({ found, changes }: { found: Repriced; changes: Changes }) {
  const [best, ...others] = [...found.variants].sort((a, b) => a.cpmt.typical - b.cpmt.typical);
  if (best === undefined) return null;
  const moved = Object.keys(changes).length === 0 ? "At the prices of the run" : `With ${Object.entries(changes).map(([name, value]) => `${word(name).toLowerCase()} at ${written(name, value)}`).join(", ")}`;
  const price = `${dollars(best.cpmt.typical)} a million tokens (${dollars(best.cpmt.low)} to ${dollars(best.cpmt.high)})`;
  const more = (one: VariantPrice) => one.cpmt.typical / best.cpmt.typical - 1;
  const alike = others.filter((one) => more(one) < PRICED_ALIKE).map((one) => one.name);
  const next = others.find((one) => more(one) >= PRICED_ALIKE);
  const least = alike.length > 0 ? `${named([best.name, ...alike])} are equal within the error of prices: ${price}` : `${best.name} is cheapest: ${price}`;
  return <p class="verdict" role="status"><b>{moved}, {least}{next === undefined ? "" : `; ${next.name} costs ${percent(more(next))} more`}.</b></p>;
}

function Sliders({ found, changes, set }: { found: Repriced; changes: Changes; set: (changes: Changes) => void }) {
  const put = (name: string, value: number) => set({ ...changes, [name]: value });
  return (
    <Section title="Prices" note="Double-click a slider to have today's price back.">
      <div class="fields">
        {found.factors.map((name) => (
          <Slider key={name} name={name} value={changes[name] ?? 1} low={Math.log(1 / FACTOR)} high={Math.log(FACTOR)} at={Math.log} from={Math.exp} put={put} reset={() => set(without(changes, name))} />
        ))}
        {found.prices.map((price) => <Known key={price.name} price={price} changes={changes} put={put} reset={() => set(without(changes, price.name))} />)}
      </div>
      <p class="tools"><button onClick={() => set({})} disabled={Object.keys(changes).length === 0}>All of today's prices</button></p>
    </Section>
  );
}

function Known({ price, changes, put, reset }: { price: KnownPrice; changes: Changes; put: (name: string, value: number) => void; reset: () => void }) {
  const least = price.name === "pue" ? 1 : price.low / 2;
  const same = (value: number) => value;
  return <Slider name={price.name} value={changes[price.name] ?? price.typical} low={least} high={Math.max(price.high * 2, least + 1e-6)} at={same} from={same} put={put} reset={reset} />;
}

interface SliderProps {
  name: string;
  value: number;
  low: number;
  high: number;
  at: (value: number) => number;
  from: (place: number) => number;
  put: (name: string, value: number) => void;
  reset: () => void;
}

function Slider({ name, value, low, high, at, from, put, reset }: SliderProps) {
  const step = (high - low) / 200;
  const show = (place: number) => Number(from(place).toPrecision(4));
  return (
    <label>
      <span>{word(name)}: {written(name, value)}</span>
      <input type="range" min={low} max={high} step={step} value={at(value)} aria-valuetext={written(name, value)} onInput={(event) => put(name, show(Number(event.currentTarget.value)))} onDblClick={reset} />
    </label>
  );
}

function without(changes: Changes, name: string): Changes {
  const { [name]: _gone, ...rest } = changes;
  return rest;
}

function Bars({ variants }: { variants: VariantPrice[] }) {
  const highest = Math.max(...variants.map((one) => one.cpmt.high));
  const rows = [...variants].sort((a, b) => a.cpmt.typical - b.cpmt.typical);
  return (
    <Section title="A million tokens" note="Low, typical and high: every assumption that was not moved keeps its width.">
      <div class="bars">
        {rows.map((one) => (
          <div class="bar-row">
            <span class="name">{one.name}</span>
            <BandBar band={one.cpmt} whole={highest} />
            <span class="value">{dollars(one.cpmt.typical)}</span>
          </div>
        ))}
      </div>
      <Table
        rows={rows}
        columns={[
          { head: "variant", text: true, by: (row) => row.name },
          { head: "low – typical – high", cell: (row) => band(row.cpmt, dollars) },
          { head: "capital", cell: (row) => dollars(row.parts["capital"] ?? 0), wide: true },
          { head: "energy", cell: (row) => dollars(row.parts["energy"] ?? 0), wide: true },
          { head: "space", cell: (row) => dollars(row.parts["space"] ?? 0), wide: true },
          { head: "operations", cell: (row) => dollars(row.parts["operations"] ?? 0), wide: true },
          { head: "tokens/s", cell: (row) => inWords(row.tokens_per_s) },
        ]}
      />
    </Section>
  );
}

function Turns({ turns, best }: { turns: PriceTurn[]; best: string }) {
  if (turns.length === 0) return <Section title="What would change the choice"><p>No single price within ten times of where it stands makes another variant as cheap as {best}.</p></Section>;
  return (
    <Section title="What would change the choice" note={`Where another variant costs as much as ${best}, one price moved and all others as they stand; typical values. Differences inside the model's error are ties all the same.`}>
      <Table
        rows={turns}
        columns={[
          { head: "price", text: true, cell: (row) => word(row.price) },
          { head: "now", cell: (row) => written(row.price, row.now) },
          { head: "turns at", cell: (row) => written(row.price, row.value) },
          { head: "then as cheap", text: true, by: (row) => row.name },
        ]}
      />
    </Section>
  );
}
