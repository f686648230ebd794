/** Adds a fault to the text of a scenario; comments stay. */

import { isNode, isSeq, LineCounter, parse, parseDocument } from "yaml";

/** The text with one more fault, and the line where it stands. */
export function withFault(text: string, fault: string): { text: string; line: number } {
  const document = parseDocument(text);
  const added: unknown = parse(fault);
  if (isSeq(document.get("faults"))) document.addIn(["faults"], document.createNode(added));
  else document.set("faults", document.createNode([added]));
  const written = document.toString();
  return { text: written, line: lineOfLast(written) };
}

function lineOfLast(text: string): number {
  const lines = new LineCounter();
  const faults = parseDocument(text, { lineCounter: lines }).get("faults");
  const last: unknown = isSeq(faults) ? faults.items.at(-1) : undefined;
  return isNode(last) && last.range ? lines.linePos(last.range[0]).line : 1;
}
