/** Something that is asked of the server by a button: a second click while the first is on its way, or of a double click, asks nothing. */

import { useRef, useState } from "preact/hooks";

/** Whether a click is a further one of a double click: a quick server may have answered the first by then. */
const isFurther = (event: Event | undefined): boolean => event instanceof UIEvent && event.detail > 1;

/** For the button of a form, whose `submit` does not say which click it comes from. */
export function firstOnly(event: MouseEvent): void {
  if (isFurther(event)) event.preventDefault();
}

/** Whether it is on its way, and what begins it. */
export function useOnce(act: () => Promise<unknown>): [busy: boolean, begin: (event?: Event) => void] {
  const [busy, set] = useState(false);
  const under = useRef(false); // a double click comes before the button is drawn anew
  const begin = async (event?: Event) => {
    if (under.current || isFurther(event)) return;
    under.current = true;
    set(true);
    try {
      await act();
    } finally {
      under.current = false;
      set(false);
    }
  };
  return [busy, (event) => void begin(event)];
}
