/** What every view is made of. */

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";

/** A part of a page under a heading that folds it; what few readers need is folded at first. */
export function Section({ title, note, folded, children }: { title: string; note?: ComponentChildren; folded?: boolean; children: ComponentChildren }) {
  return (
    <section>
      <details class="fold" open={!folded}>
        <summary><h2>{title}</h2></summary>
        {note !== undefined && <p class="note">{typeof note === "string" ? <Spelt words={note} /> : note}</p>}
        {children}
      </details>
    </section>
  );
}

type Value = number | string | null | undefined;

export interface Column<Row> {
  head: string;
  /** What rows are sorted by when its heading is clicked; without it the column has no order. */
  by?: (row: Row) => Value;
  /** How a number of it is written; nothing is a dash. */
  show?: (value: number) => string;
  /** What stands in the table; its value without it. */
  cell?: (row: Row) => ComponentChildren;
  text?: boolean;
  /** Left out on a narrow screen. */
  wide?: boolean;
}

interface Order {
  column: number;
  falling: boolean;
}

/** Rows in an order; those that are equal stay as they were, and those without a value stand last. */
function sorted<Row>(rows: Row[], by: Column<Row>["by"], falling: boolean): Row[] {
  if (by === undefined) return rows;
  const known = rows.filter((row) => by(row) !== null && by(row) !== undefined);
  const compare = (one: Value, other: Value): number => (typeof one === "number" && typeof other === "number" ? one - other : String(one).localeCompare(String(other)));
  return [...known.sort((one, other) => (falling ? -1 : 1) * compare(by(one), by(other))), ...rows.filter((row) => by(row) === null || by(row) === undefined)];
}

function content<Row>({ cell, by, show }: Column<Row>, row: Row): ComponentChildren {
  if (cell !== undefined) return cell(row);
  const value = by?.(row);
  if (value === null || value === undefined) return "—";
  return typeof value === "number" && show !== undefined ? show(value) : String(value);
}

const look = (column: { text?: boolean; wide?: boolean }): string => [column.text ? "text" : "", column.wide ? "wide-only" : ""].join(" ").trim();

export function Table<Row>({ rows, columns, mark }: { rows: Row[]; columns: Column<Row>[]; mark?: (row: Row) => boolean }) {
  const [order, sort] = useState<Order>();
  const turn = (column: number) => sort((last) => (last?.column !== column ? { column, falling: true } : last.falling ? { column, falling: false } : undefined));
  const head = ({ head, by }: Column<Row>, index: number) => {
    const falling = order?.column === index ? order.falling : undefined;
    return by === undefined ? head : <button class="sort" title="sort" onClick={() => turn(index)}>{head}{falling === undefined ? "" : falling ? " ↓" : " ↑"}</button>;
  };
  const direction = (index: number) => (order?.column !== index ? undefined : order.falling ? "descending" : "ascending");
  return (
    <div class="scroll" tabIndex={0} role="group" aria-label="table, scrolls">
      <table>
        <thead>
          <tr>{columns.map((column, index) => <th class={look(column)} aria-sort={direction(index)}>{head(column, index)}</th>)}</tr>
        </thead>
        <tbody>
          {sorted(rows, columns[order?.column ?? -1]?.by, order?.falling ?? false).map((row) => (
            <tr class={mark?.(row) ? "marked" : ""}>
              {columns.map((column) => <td class={look(column)}>{content(column, row)}</td>)}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** Beyond so many names a list to choose from is shorter than buttons. */
const MOST_BUTTONS = 8;

export function ButtonRow(props: { label: string; names: string[]; chosen: number; choose: (index: number) => void }) {
  if (props.names.length > MOST_BUTTONS)
    return (
      <label class="buttons">
        <span class="muted">{props.label}</span>
        <select value={props.chosen} onChange={(event) => props.choose(Number(event.currentTarget.value))}>
          {props.names.map((name, index) => <option value={index}>{name}</option>)}
        </select>
      </label>
    );
  return (
    <div class="buttons" role="group" aria-label={props.label}>
      <span class="muted">{props.label}</span>
      {props.names.map((name, index) => (
        <button aria-pressed={index === props.chosen} onClick={() => props.choose(index)}>{name}</button>
      ))}
    </div>
  );
}

/** Names with their colours; of lines that are dashed, a piece of each. */
export function Legend({ items }: { items: { name: string; color: string; dashes?: string | undefined }[] }) {
  return (
    <ul class="legend">
      {items.map((item) => (
        <li>
          {item.dashes === undefined ? (
            <i style={{ background: item.color }} />
          ) : (
            <svg width="22" height="8" aria-hidden="true"><line x1="0" x2="22" y1="4" y2="4" class="curve" style={{ stroke: item.color, strokeDasharray: item.dashes }} /></svg>
          )}
          {item.name}
        </li>
      ))}
    </ul>
  );
}

/** A bar of parts, 0 to `whole`; each part tells itself on hover. */
export function StackedBar({ parts, whole }: { parts: { name: string; value: number; color: string; tip: string }[]; whole: number }) {
  return (
    <div class="stack">
      {parts.filter((part) => part.value > 0).map((part) => (
        <span title={part.tip} style={{ width: `${(100 * part.value) / whole}%`, background: part.color }} />
      ))}
    </div>
  );
}

/** A low to high span with a tick at the typical value, on an axis from 0 to `whole`. */
export function BandBar({ band, whole }: { band: { low: number; typical: number; high: number }; whole: number }) {
  const at = (value: number) => `${(100 * value) / whole}%`;
  return (
    <div class="band">
      <span class="span" style={{ left: at(band.low), width: `${(100 * Math.max(band.high - band.low, 0)) / whole}%` }} />
      <span class="tick" style={{ left: at(band.typical) }} />
    </div>
  );
}

/** Words in which code stands between back quotes. */
export function Spelt({ words }: { words: string }) {
  return <>{words.split("`").map((part, index) => (index % 2 === 1 ? <code>{part}</code> : part))}</>;
}

export function Figure({ name, value, under }: { name: string; value: string; under?: string | undefined }) {
  return (
    <div class="figure">
      <span class="muted">{name}</span>
      <strong>{value}</strong>
      {under !== undefined && <small>{under}</small>}
    </div>
  );
}

/** Figures of a document, as Python wrote them. */
export function Figures({ rows }: { rows: readonly { name: string; value: string; band: string }[] }) {
  return <div class="figures">{rows.map(({ name, value, band }) => <Figure name={name} value={value} under={band || undefined} />)}</div>;
}

export function List({ title, items }: { title?: string; items: string[] }) {
  if (items.length === 0) return null;
  return (
    <>
      {title !== undefined && <h3>{title}</h3>}
      <ul>{items.map((item) => <li><Spelt words={item} /></li>)}</ul>
    </>
  );
}
