/** The first screen of a result or an answer: verdict, figures, losses by cause, and what would change the choice. */

import { partColor } from "../colors";
import { Figures, Legend, List, StackedBar } from "../parts";
import type { Decision as Document, DecisionChart } from "../ui/api.gen";

/** Titles of lists that fold. */
const FOLDED = ["Assumptions"];

interface Choice {
  /** Name of the variant whose details are shown. */
  chosen?: string;
  choose?: (name: string) => void;
}

export function Decision({ decision, ...choice }: Choice & { decision: Document }) {
  const { verdict, figures, chart, lists, why } = decision;
  const open = lists.filter((list) => !FOLDED.includes(list.title));
  const folded = [{ title: "Reasons", lines: why }, ...lists.filter((list) => FOLDED.includes(list.title))].filter((list) => list.lines.length > 0);
  return (
    <section class="decision">
      <h2 class="verdict">{verdict}</h2>
      {figures.length > 0 && <Figures rows={figures} />}
      {chart && chart.parts.length > 0 && <Losses chart={chart} {...choice} />}
      {open.length > 0 && <div class="columns">{open.map((list) => <div><List title={list.title} items={list.lines} /></div>)}</div>}
      {figures.length === 0 && <List title="Reasons" items={why} />}
      {figures.length > 0 && folded.map((list) => <details class={list.title.toLowerCase()}><summary>{list.title}</summary><ul>{list.lines.map((line) => <li>{line}</li>)}</ul></details>)}
    </section>
  );
}

function Losses({ chart, chosen, choose }: Choice & { chart: DecisionChart }) {
  return (
    <>
      <h3>{chart.title}</h3>
      <div class="bars losses">
        {chart.bars.map((bar) => (
          <button class="bar-row" aria-pressed={bar.name === chosen} onClick={() => choose?.(bar.name)}>
            <span class="name">{bar.name}</span>
            <div class="track">
              <StackedBar whole={1} parts={bar.parts.map(({ part, length, amount }) => ({ name: chart.parts[part] ?? "", value: length, color: partColor(chart.parts[part] ?? ""), tip: `${bar.name}: ${chart.parts[part]} ${amount}` }))} />
              {chart.bound !== null && <i class="bound" style={{ left: `${100 * chart.bound}%` }} />}
            </div>
            <span class="value">{bar.total}</span>
          </button>
        ))}
      </div>
      <Legend items={[...chart.parts.map((name) => ({ name, color: partColor(name) })), ...(chart.bound === null ? [] : [{ name: `line: ${chart.bound_name}`, color: "var(--ink)" }])]} />
    </>
  );
}
