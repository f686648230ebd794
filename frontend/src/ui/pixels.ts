/** Lanes of a timeline as an image, a pixel of height each, stretched when it is painted. */

import { resolver } from "../canvas";
import { taskColor } from "../views/timeline";
import type { Look } from "./api.gen";
import type { Packed } from "./packed";

/** A lane that is hardly busy is still seen. */
const FAINTEST = 0.25;

export interface Drawn {
  from: number;
  to: number;
  first: number;
  count: number;
  image: HTMLCanvasElement;
}

type Colour = readonly [red: number, green: number, blue: number];

/** Any CSS colour as numbers. */
function numbers(css: string): Colour {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = 1;
  const context = canvas.getContext("2d", { willReadFrequently: true });
  if (context === null) return [0, 0, 0];
  context.fillStyle = css;
  context.fillRect(0, 0, 1, 1);
  const [red = 0, green = 0, blue = 0] = context.getImageData(0, 0, 1, 1).data;
  return [red, green, blue];
}

export function drawn(answer: Packed<{ first: number; count: number }>, looks: Look[], element: HTMLElement, from: number, to: number): Drawn {
  const [look, busy] = [answer.column("look"), answer.column("busy")];
  const { first, count } = answer.head;
  const width = count === 0 ? 1 : look.length / count;
  const image = document.createElement("canvas");
  image.width = width;
  image.height = Math.max(count, 1);
  const context = image.getContext("2d");
  if (context === null || count === 0) return { from, to, first, count, image };
  const resolve = resolver(element);
  const lane = numbers(resolve("var(--lane)"));
  const colours = looks.map((each) => numbers(resolve(taskColor({ ...each }))));
  const data = context.createImageData(width, count);
  for (let at = 0; at < look.length; at++) {
    const colour = colours[look[at] ?? -1];
    const share = colour === undefined ? 0 : Math.max((busy[at] ?? 0) / 255, FAINTEST);
    for (let part = 0; part < 3; part++) data.data[4 * at + part] = (colour?.[part] ?? 0) * share + (lane[part] ?? 0) * (1 - share);
    data.data[4 * at + 3] = 255;
  }
  context.putImageData(data, 0, 0);
  return { from, to, first, count, image };
}
