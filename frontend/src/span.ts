/** A stretch of time that is looked at: zoomed about a moment, moved, never beyond what there is. */

export interface Span {
  from: number;
  to: number;
}

export function zoomed(view: Span, all: Span, factor: number, at: number): Span {
  const span = Math.min((view.to - view.from) * factor, all.to - all.from);
  const from = Math.min(Math.max(at - (at - view.from) * (span / (view.to - view.from)), all.from), all.to - span);
  return { from, to: from + span };
}

export function moved(view: Span, all: Span, by: number): Span {
  const span = view.to - view.from;
  const from = Math.min(Math.max(view.from + by, all.from), all.to - span);
  return { from, to: from + span };
}

/** What a key of the timeline does: w and s zoom, a and d move, 0 shows all; undefined for other keys. */
export function byKey(key: string, view: Span, all: Span): Span | undefined {
  const middle = (view.from + view.to) / 2;
  const span = view.to - view.from;
  switch (key) {
    case "w": return zoomed(view, all, 0.6, middle);
    case "s": return zoomed(view, all, 1.6, middle);
    case "a": return moved(view, all, -span / 5);
    case "d": return moved(view, all, span / 5);
    case "0": return all;
    default: return undefined;
  }
}
