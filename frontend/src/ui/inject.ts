/** Adds a fault to the text of a scenario; comments stay. */

import { isSeq, parse, parseDocument } from "yaml";

export function withFault(text: string, fault: string): string {
  const document = parseDocument(text);
  const added: unknown = parse(fault);
  if (isSeq(document.get("faults"))) document.addIn(["faults"], document.createNode(added));
  else document.set("faults", document.createNode([added]));
  return document.toString();
}
