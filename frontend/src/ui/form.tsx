/** A form over the same text: the values that decide most, each with its choices; comments of the text stay. */

import { isMap, isScalar, parseDocument, stringify, type Document } from "yaml";
import type { Schema } from "./api";
import { at, valuesAt } from "./schema";
import { Words } from "./words";

interface Field {
  path: readonly string[];
  label: string;
  /** Where the value is when it is written as a mapping: `fabric: {name: roce}`. */
  under?: string;
  /** What the section above is short for where it is one word: `topology: leaf-spine` is `topology: {kind: leaf-spine}`. */
  aboveIs?: string;
}

const FIELDS: readonly Field[] = [
  { path: ["cluster", "accelerators"], label: "Accelerators" },
  { path: ["cluster", "server"], label: "Server" },
  { path: ["cluster", "back_end", "topology"], label: "Topology", under: "kind" },
  { path: ["cluster", "back_end", "topology", "oversubscription"], label: "Oversubscription", aboveIs: "kind" },
  { path: ["cluster", "back_end", "fabric"], label: "Fabric", under: "name" },
  { path: ["workload", "training", "model"], label: "Model trained" },
  { path: ["workload", "training", "global_batch"], label: "Global batch, sequences" },
  { path: ["workload", "training", "sequence"], label: "Sequence, tokens" },
  { path: ["workload", "training", "parallelism"], label: "Parallelism" },
  { path: ["workload", "serving", "model"], label: "Model served" },
  { path: ["workload", "serving", "precision"], label: "Precision" },
  { path: ["engine"], label: "Engine" },
  { path: ["seed"], label: "Seed" },
];

export function Form({ text, schema, change }: { text: string; schema: Schema; change: (text: string) => void }) {
  const document = parseDocument(text);
  if (document.errors.length > 0 || !isMap(document.contents)) return <p class="muted">The form is there again once the text is valid YAML.</p>;
  const shown = FIELDS.filter((field) => isShown(document, field));
  return (
    <form class="fields" onSubmit={(event) => event.preventDefault()}>
      {shown.map((field) => <Entry key={field.path.join(".")} field={field} document={document} schema={schema} change={change} />)}
    </form>
  );
}

/** Fields of a part that the scenario has; `cluster` and the top level always. */
function isShown(document: Document, field: Field): boolean {
  return field.path[0] !== "workload" || document.hasIn(field.path.slice(0, 2));
}

function Entry({ field, document, schema, change }: { field: Field; document: Document; schema: Schema; change: (text: string) => void }) {
  const path = placeOf(document, field);
  const value = document.getIn(path);
  const id = `field-${field.path.join("-")}`;
  const choices = valuesAt(field.under === undefined ? field.path : [...field.path, field.under], schema).concat(valuesAt(field.path, schema));
  const about = at(field.path, schema).find((form) => form.description)?.description;
  const put = (words: string) => {
    spellOut(document, field);
    if (words === "") document.deleteIn(path);
    else document.setIn(path, typed(words));
    change(document.toString({ lineWidth: 0, flowCollectionPadding: false }));
  };
  return (
    <label for={id} title={about}>
      <span>{field.label}</span>
      <Words id={id} list={choices.length > 0 ? `${id}-choices` : undefined} value={written(value)} put={put} />
      {choices.length > 0 && <datalist id={`${id}-choices`}>{[...new Set(choices)].map((choice) => <option value={choice} />)}</datalist>}
    </label>
  );
}

/** Makes a mapping of a section that is written as one word. */
function spellOut(document: Document, field: Field): void {
  const above = field.path.slice(0, -1);
  const short = document.getIn(above, true);
  if (field.aboveIs === undefined || !isScalar(short)) return;
  const spelt = document.createNode({ [field.aboveIs]: short.value }, { flow: true });
  spelt.comment = short.comment ?? null;
  document.setIn(above, spelt);
}

function placeOf(document: Document, field: Field): readonly string[] {
  return field.under !== undefined && isMap(document.getIn(field.path)) ? [...field.path, field.under] : field.path;
}

/** A value in one line, a section as `{tp: 2, pp: 4}`. */
function written(value: unknown): string {
  if (isMap(value)) return stringify(value.toJSON(), { collectionStyle: "flow", lineWidth: 0, flowCollectionPadding: false }).trim();
  return value === undefined ? "" : String(value);
}

/** As YAML reads it: numbers and truth values are not text; a section stays in one line. */
function typed(words: string): unknown {
  return parseDocument(words).contents;
}
