/** What every view that paints on a canvas needs. */

/** CSS variables as the canvas needs them: resolved. */
export function resolver(element: HTMLElement): (color: string) => string {
  const style = getComputedStyle(element);
  const known = new Map<string, string>();
  return (color) => {
    const name = color.startsWith("var(") ? color.slice(4, -1) : "";
    if (name === "") return color;
    if (!known.has(name)) known.set(name, style.getPropertyValue(name).trim());
    return known.get(name) ?? color;
  };
}

/**
 * Paints now and at every change of the element's size or of the colour scheme, and for print; returns what ends it.
 *
 * What the observer tells waits for the next frame: a canvas that changes inside its callback makes the browser
 * complain of "undelivered notifications".
 */
export function paintedOnChange(element: HTMLElement, paint: () => void): () => void {
  paint();
  let frame = 0;
  const soon = () => {
    cancelAnimationFrame(frame);
    frame = requestAnimationFrame(paint);
  };
  const watcher = new ResizeObserver(soon);
  watcher.observe(element);
  const scheme = matchMedia("(prefers-color-scheme: dark)");
  scheme.addEventListener("change", soon);
  const print = matchMedia("print"); // paper is light: at once, as no frame comes before it is printed
  print.addEventListener("change", paint);
  return () => {
    cancelAnimationFrame(frame);
    watcher.disconnect();
    scheme.removeEventListener("change", soon);
    print.removeEventListener("change", paint);
  };
}
