/** Something that is fetched: nothing yet, there, or refused with the reason. */

import { useEffect, useState } from "preact/hooks";

export type Loaded<T> = { value?: T; error?: string };

/** Fetches anew whenever one of `keys` changes or `again` is called. */
export function useLoaded<T>(fetch: () => Promise<T>, keys: readonly unknown[]): [Loaded<T>, () => void] {
  const [state, set] = useState<Loaded<T>>({});
  const [turn, again] = useState(0);
  useEffect(() => {
    let late = false;
    fetch().then(
      (value) => late || set({ value }),
      (error: unknown) => late || set({ error: String(error instanceof Error ? error.message : error) }),
    );
    return () => {
      late = true;
    };
  }, [...keys, turn]);
  return [state, () => again((count) => count + 1)];
}
