/** A text field whose words count once it is left or Enter is pressed; until then a redraw of the page leaves them alone. */

import { useState } from "preact/hooks";

interface Parts {
  value: string;
  put: (words: string) => void;
  id?: string | undefined;
  /** The id of a list of choices. */
  list?: string | undefined;
  placeholder?: string | undefined;
  "aria-describedby"?: string | undefined;
}

export function Words({ value, put, id, list, placeholder, "aria-describedby": about }: Parts) {
  const [draft, setDraft] = useState<string>();
  return (
    <input
      id={id}
      list={list}
      placeholder={placeholder}
      aria-describedby={about}
      value={draft ?? value}
      onInput={(event) => setDraft(event.currentTarget.value)}
      onChange={(event) => {
        put(event.currentTarget.value.trim());
        setDraft(undefined);
      }}
      onBlur={() => setDraft(undefined)}
    />
  );
}
