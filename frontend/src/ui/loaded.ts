/** Something that is fetched: nothing yet, there, or refused with the reason. */

import { useEffect, useState } from "preact/hooks";

export type Loaded<T> = { value?: T; error?: string };

/** What is there, and the keys that it was fetched for. */
type Kept<T> = Loaded<T> & { of?: readonly unknown[] };

const same = (one: readonly unknown[] | undefined, other: readonly unknown[]): boolean => one !== undefined && other.every((key, index) => Object.is(key, one[index]));

/**
 * Fetches anew whenever one of `keys` or `turns` changes or the second value is called. Other keys are another thing;
 * another turn is the same thing, perhaps changed: where it cannot be had just now, what is there stays.
 */
export function useLoaded<T>(fetch: () => Promise<T>, keys: readonly unknown[], turns: readonly unknown[] = []): [Loaded<T>, () => void] {
  const [state, set] = useState<Kept<T>>({});
  const [turn, again] = useState(0);
  useEffect(() => {
    let late = false;
    fetch().then(
      (value) => late || set({ value, of: keys }),
      (error: unknown) => late || set((last) => (last.value !== undefined && same(last.of, keys) ? last : { error: String(error instanceof Error ? error.message : error) })),
    );
    return () => {
      late = true;
    };
  }, [...keys, ...turns, turn]);
  return [state, () => again((count) => count + 1)];
}
