/** Which row of an answer is chosen; it stands in the address. */

import { useEffect, useState } from "preact/hooks";
import { choose, chosen, onMove } from "../place";

const KEY = "finding";

const read = (): number | undefined => {
  const number = Number.parseInt(chosen(KEY) ?? "", 10);
  return number >= 1 ? number - 1 : undefined;
};

/** The chosen row, counted from 0, and how another is chosen; choosing it again lets it go. */
export function useRow(): [number | undefined, (row: number) => void] {
  const [row, set] = useState(read);
  useEffect(() => onMove(() => set(read())), []);
  return [row, (next) => {
    const value = next === row ? undefined : next;
    choose(KEY, value === undefined ? null : String(value + 1));
    set(value);
  }];
}
