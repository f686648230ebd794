/** What the address says after `#`: a page of its own before `?`, and what is chosen on it. */

/** What is chosen where there is no address to keep it in: a frame of a notebook. */
let kept: string | undefined;

const parts = (): [string, URLSearchParams] => {
  const hash = kept ?? location.hash.slice(1);
  const page = hash.startsWith("/") ? (hash.split("?")[0] ?? "") : "";
  const rest = page === "" ? hash : hash.slice(page.length + 1);
  return [page, new URLSearchParams(rest)];
};

export const page = (): string => parts()[0];
export const chosen = (name: string): string | null => parts()[1].get(name);

/** Changes what is chosen without a step in the browser's history. */
export function choose(name: string, value: string | null): void {
  const [here, values] = parts();
  if (value === null) values.delete(name);
  else values.set(name, value);
  const rest = values.toString();
  const next = `${here}${here !== "" && rest !== "" ? "?" : ""}${rest}`;
  try {
    history.replaceState(null, "", `#${next}`);
  } catch {
    kept = next;
  }
}

/** The address of another page. */
export function address(to: string, values: Record<string, string> = {}): string {
  const rest = new URLSearchParams(values).toString();
  return `#${to}${rest === "" ? "" : `?${rest}`}`;
}

/** Calls back whenever the address changes; gives what ends that. */
export function onMove(follow: () => void): () => void {
  addEventListener("hashchange", follow);
  return () => removeEventListener("hashchange", follow);
}
