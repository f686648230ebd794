/** Something that is asked of the server by a button: a second click while the first is on its way asks nothing. */

import { useRef, useState } from "preact/hooks";

/** Whether it is on its way, and what begins it. */
export function useOnce(act: () => Promise<unknown>): [busy: boolean, begin: () => void] {
  const [busy, set] = useState(false);
  const under = useRef(false); // a double click comes before the button is drawn anew
  const begin = async () => {
    if (under.current) return;
    under.current = true;
    set(true);
    try {
      await act();
    } finally {
      under.current = false;
      set(false);
    }
  };
  return [busy, () => void begin()];
}
