/** The editor: YAML with the schema's completion and the server's errors at their lines. Loaded when it is needed. */

import { autocompletion, closeBrackets, completionKeymap, type Completion, type CompletionContext, type CompletionResult } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { yaml } from "@codemirror/lang-yaml";
import { bracketMatching, defaultHighlightStyle, HighlightStyle, indentUnit, syntaxHighlighting } from "@codemirror/language";
import { lintGutter, setDiagnostics, type Diagnostic } from "@codemirror/lint";
import { highlightSelectionMatches, searchKeymap } from "@codemirror/search";
import { EditorState, type Text } from "@codemirror/state";
import { drawSelection, EditorView, highlightActiveLine, keymap, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import type { TextFault } from "./api.gen";
import type { Schema } from "./api";
import { keysAt, valuesAt } from "./schema";

export interface Editor {
  text: () => string;
  replace: (text: string) => void;
  show: (faults: readonly TextFault[]) => void;
  goTo: (line: number) => void;
  close: () => void;
}

const look = HighlightStyle.define([
  { tag: tags.propertyName, color: "var(--accent)" },
  { tag: tags.definition(tags.propertyName), color: "var(--accent)" },
  { tag: tags.comment, color: "var(--muted)", fontStyle: "italic" },
  { tag: tags.string, color: "var(--ink)" },
]);

const theme = EditorView.theme({
  "&": { fontSize: "13.5px", backgroundColor: "var(--panel)", color: "var(--ink)" },
  ".cm-content": { fontFamily: "ui-monospace, SFMono-Regular, Menlo, monospace", caretColor: "var(--ink)" },
  ".cm-gutters": { backgroundColor: "var(--lane)", color: "var(--muted)", border: "none" },
  ".cm-activeLine": { backgroundColor: "color-mix(in srgb, var(--accent) 7%, transparent)" },
  ".cm-cursor": { borderLeftColor: "var(--ink)" },
  ".cm-tooltip": { backgroundColor: "var(--panel)", color: "var(--ink)", border: "1px solid var(--line)" },
  ".cm-tooltip-autocomplete ul li[aria-selected]": { backgroundColor: "var(--accent)", color: "var(--panel)" },
  ".cm-panels": { backgroundColor: "var(--lane)", color: "var(--ink)" },
});

/** An editor in `parent`; `changed` is called with the text after every change. */
export function editor(parent: HTMLElement, text: string, schema: Schema, changed: (text: string) => void, save: () => void): Editor {
  const view = new EditorView({
    parent,
    state: EditorState.create({
      doc: text,
      extensions: [
        lineNumbers(), lintGutter(), history(), drawSelection(), highlightActiveLine(), bracketMatching(), closeBrackets(),
        highlightSelectionMatches(), indentUnit.of("  "), yaml(), syntaxHighlighting(look), syntaxHighlighting(defaultHighlightStyle, { fallback: true }), theme,
        autocompletion({ override: [(context) => complete(context, schema)] }),
        keymap.of([{ key: "Mod-s", run: () => (save(), true), preventDefault: true }, ...completionKeymap, ...defaultKeymap, ...historyKeymap, ...searchKeymap, indentWithTab]),
        EditorView.contentAttributes.of({ "aria-label": "Scenario, YAML. Escape, then Tab leaves the editor" }),
        EditorView.updateListener.of((update) => update.docChanged && changed(update.state.doc.toString())),
      ],
    }),
  });
  view.scrollDOM.tabIndex = 0; // what scrolls is reached by keys
  return {
    text: () => view.state.doc.toString(),
    replace: (next) => {
      if (next !== view.state.doc.toString()) view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: next } });
    },
    show: (faults) => view.dispatch(setDiagnostics(view.state, faults.map((fault) => diagnostic(fault, view.state.doc)))),
    goTo: (line) => {
      const place = view.state.doc.line(Math.min(Math.max(1, line), view.state.doc.lines)).from;
      view.dispatch({ selection: { anchor: place }, effects: EditorView.scrollIntoView(place, { y: "center" }) });
      view.focus();
    },
    close: () => view.destroy(),
  };
}

function diagnostic(fault: TextFault, doc: Text): Diagnostic {
  const line = doc.line(Math.min(Math.max(1, fault.line ?? 1), doc.lines));
  const from = Math.min(line.from + Math.max(0, (fault.column ?? 1) - 1), line.to);
  const words = [fault.key ? `${fault.key}: ${fault.message}` : fault.message, fault.allowed && `allowed: ${fault.allowed}`, fault.hint];
  return { from, to: Math.max(from, line.to), severity: "error", message: words.filter(Boolean).join("\n") };
}

function complete(context: CompletionContext, schema: Schema): CompletionResult | null {
  const line = context.state.doc.lineAt(context.pos);
  const before = line.text.slice(0, context.pos - line.from);
  const path = pathAt(context.state.doc, line.number, indentOf(before));
  const value = /^\s*(?:- )?([\w-]+):\s+(\S*)$/.exec(before);
  if (value !== null) {
    const options = valuesAt([...path, value[1] ?? ""], schema).map((label): Completion => ({ label, type: "constant" }));
    return options.length === 0 ? null : { from: context.pos - (value[2] ?? "").length, options };
  }
  const key = /^\s*(?:- )?([\w-]*)$/.exec(before);
  if (key === null || (!context.explicit && key[1] === "")) return null;
  const options = keysAt(path, schema).map(({ key: label, about }): Completion => ({ label, apply: `${label}: `, info: about, type: "property" }));
  return { from: context.pos - (key[1] ?? "").length, options };
}

const indentOf = (text: string): number => text.length - text.trimStart().length;

/** The keys above a line that is indented so far, outermost first; an item of a list is `-`. */
function pathAt(doc: Text, number: number, indent: number): string[] {
  const path: string[] = [];
  let left = indent;
  const item = /^\s*- /.exec(doc.line(number).text);
  if (item !== null) path.unshift("-");
  for (let above = number - 1; above >= 1 && left > 0; above -= 1) {
    const text = doc.line(above).text;
    const found = /^(\s*)(- )?([\w-]+):/.exec(text);
    if (found === null || (found[1] ?? "").length >= left) continue;
    left = (found[1] ?? "").length;
    path.unshift(found[3] ?? "");
    if (found[2] !== undefined) path.unshift("-");
  }
  return path;
}
