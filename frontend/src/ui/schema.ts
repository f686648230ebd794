/** What a JSON schema says of a place in a scenario: for completion and for the form. */

import type { Schema } from "./api";

/** Every object that may stand there: references followed, alternatives side by side. */
export function forms(schema: Schema | undefined, root: Schema): Schema[] {
  if (schema === undefined) return [];
  if (schema.$ref !== undefined) return forms(root.$defs?.[schema.$ref.replace("#/$defs/", "")], root);
  const inner = [...(schema.anyOf ?? []), ...(schema.oneOf ?? []), ...(schema.allOf ?? [])];
  return [schema, ...inner.flatMap((part) => forms(part, root))];
}

/** What may stand under a path of keys; numbers in lists are `-`. */
export function at(path: readonly string[], root: Schema): Schema[] {
  let here = forms(root, root);
  for (const key of path) {
    const next = here.flatMap((form) => (key === "-" ? [form.items] : [form.properties?.[key]]));
    here = next.flatMap((form) => forms(form, root));
  }
  return here;
}

/** Keys that may stand there, with what each means. */
export function keysAt(path: readonly string[], root: Schema): { key: string; about: string }[] {
  const found = new Map<string, string>();
  for (const form of at(path, root))
    for (const [key, part] of Object.entries(form.properties ?? {}))
      if (!found.has(key)) found.set(key, part.description ?? forms(part, root).find((each) => each.description)?.description ?? "");
  return [...found].map(([key, about]) => ({ key, about }));
}

/** Values that are known to be possible there. */
export function valuesAt(path: readonly string[], root: Schema): string[] {
  const found = new Set<string>();
  for (const form of at(path, root)) {
    for (const value of [...(form.enum ?? []), ...(form.const === undefined ? [] : [form.const]), ...(form.examples ?? [])])
      if (["string", "number", "boolean"].includes(typeof value)) found.add(String(value));
    if (form.type === "boolean") ["true", "false"].forEach((word) => found.add(word));
  }
  return [...found];
}
