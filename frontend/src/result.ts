/** How the report finds its result, and what kinds of variants are in it. */

import type { Band, Result, TraceVariant, TrainingVariant } from "./result.gen";

export type Variant = Result["variants"][number];

/** Ranks that compute and communicate. */
export type Stepped = TrainingVariant | TraceVariant;

export const hasStep = (variant: Variant): variant is Stepped => "step" in variant;

/** What a variant costs: per million tokens, or per hour where it makes none. */
export const priceOf = (variant: Stepped): Band => ("cost" in variant ? variant.cost.usd_per_h : variant.cpmt);

async function inflate(base64: string): Promise<string> {
  const bytes = Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).text();
}

/** A document that the page carries in itself. */
export async function embedded<Document>(seat = "railyard-result"): Promise<Document> {
  const text = document.getElementById(seat)?.textContent?.trim() ?? "";
  if (text === "" || text.startsWith("@@")) throw new Error("this page carries no result");
  return JSON.parse(await inflate(text)) as Document;
}

/** The result, if it has the format that the views know. */
export function checked(result: Result): Result {
  if ((result.format as string) !== "railyard/result-1") throw new Error(`format ${result.format} is not railyard/result-1`);
  return result;
}
