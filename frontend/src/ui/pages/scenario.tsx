/** A scenario being written: text and form, faults at their lines, a rough answer while one types, then the run. */

import { useEffect, useRef, useState } from "preact/hooks";
import { duration, whole, wholeDollars } from "../../format";
import { Figures, Section, Spelt } from "../../parts";
import { address, choose, chosen } from "../../place";
import { hasStep, type Stepped } from "../../result";
import type { Result } from "../../result.gen";
import { Summary } from "../../views/summary";
import type { DecisionFigure, Estimated, TextFault, QueuedJob, VerbSpec } from "../api.gen";
import { api, outcomeAt, Refusal, type Schema } from "../api";
import type { Editor } from "../editor";
import { Choices } from "../asking";
import { JobRow, hasEnded } from "../jobs";
import { useLoaded } from "../loaded";
import { useOnce } from "../once";
import { Words } from "../words";

/** After the last key: long enough not to ask for every letter. */
const PAUSE_MS = 300;
/** Typed text outlives a closed tab; with a fault that the hall added it is another text. */
const kept = (file: string, fault: string | null) => `railyard draft ${file}${fault === null ? "" : ` with ${fault}`}`;

function keepDraft(place: string, text: string, saved: string): void {
  if (text === saved) localStorage.removeItem(place);
  else localStorage.setItem(place, text);
}

interface Opened {
  file: string;
  text: string;
  /** What the file holds, where the text has more. */
  stored?: string;
  version: string | null;
  /** Where a fault was added that the address names: the editor shows that. */
  line?: number;
}

async function open(): Promise<Opened> {
  const [file, from, run] = [chosen("file"), chosen("from"), chosen("run")];
  if (file !== null) {
    const found = await api.read(file);
    return { ...found, ...(await withFault(found.text, chosen("fault"))), stored: found.text };
  }
  if (run !== null) return { file: `${run}.yaml`, ...(await withFault(await api.scenario(run), chosen("fault"))), version: null };
  const templates = await api.templates();
  const template = templates.find((each) => each.name === from) ?? templates[0];
  return { file: `${template?.name ?? "scenario"}.yaml`, text: template?.text ?? "", version: null };
}

/** The text with one more fault, as the floor plan names it. */
async function withFault(text: string, fault: string | null): Promise<Pick<Opened, "text" | "line">> {
  return fault === null ? { text } : (await import("../inject")).withFault(text, fault);
}

export function ScenarioPage({ jobs }: { jobs: QueuedJob[] }) {
  const [opened] = useLoaded(open, []); // once: what is chosen here changes the address, and another address is another page
  const [schema] = useLoaded(api.schema, []);
  const [verbs] = useLoaded(api.verbs, []);
  const [code] = useLoaded(() => import("../editor"), []);
  const [form] = useLoaded(() => import("../form"), []);
  const error = opened.error ?? schema.error ?? verbs.error ?? code.error ?? form.error;
  if (error !== undefined) return <p class="failure">{error}. <a href="#/">To the runs</a></p>;
  if (!opened.value || !schema.value || !verbs.value || !code.value || !form.value) return <p class="muted" role="status">opening</p>;
  return <Desk key={`${opened.value.file} ${opened.value.version}`} opened={opened.value} schema={schema.value} verbs={verbs.value.filter((verb) => verb.scenario)} editor={code.value.editor} Form={form.value.Form} jobs={jobs} />;
}

/** What the folder holds. */
interface Saved {
  file: string;
  text: string;
  version: string | null;
}

interface Tools {
  opened: Opened;
  schema: Schema;
  /** Those that take a scenario. */
  verbs: readonly VerbSpec[];
  editor: typeof import("../editor").editor;
  Form: typeof import("../form").Form;
  jobs: QueuedJob[];
}

function Desk({ opened, schema, verbs, editor, Form, jobs }: Tools) {
  const [file, setFile] = useState(opened.file);
  const [text, setText] = useState(() => localStorage.getItem(kept(opened.file, chosen("fault"))) ?? opened.text);
  const [saved, setSaved] = useState<Saved>({ file: opened.file, text: opened.stored ?? opened.text, version: opened.version });
  const [trouble, setTrouble] = useState<string>();
  /** What was started, and with which text: whoever writes on is not led away. */
  const [asked, setAsked] = useState<{ id: string; text: string }>();
  const seat = useRef<HTMLDivElement>(null);
  const view = useRef<Editor | undefined>(undefined);
  const { faults, busy, estimate } = useLook(file, text);
  const [name, setVerb] = useState(chosen("verb") ?? "run");
  const [options, setOptions] = useState<Record<string, string>>({});
  const verb = verbs.find((each) => each.name === name) ?? verbs[0];
  if (verb === undefined) throw new Error("the server knows no verb that takes a scenario");

  const put = (next: string) => {
    setText(next);
    keepDraft(kept(saved.file, chosen("fault")), next, saved.text); // now: a tab may close before the page is drawn
  };
  const [saving, save] = useOnce(async () => {
    try {
      const words = view.current?.text() ?? text;
      const stored = await api.write(file, words, file === saved.file ? saved.version : null);
      localStorage.removeItem(kept(saved.file, chosen("fault")));
      setSaved(stored);
      keepDraft(kept(stored.file, null), view.current?.text() ?? words, stored.text); // typed while it was on its way
      setTrouble(undefined);
      choose("from", null);
      choose("run", null);
      choose("fault", null);
      choose("file", stored.file);
    } catch (error) {
      setTrouble(error instanceof Refusal && error.status === 409 ? `${error.message}; give another name to keep both` : String((error as Error).message));
    }
  });
  const [starting, run] = useOnce(() => api.add({ verb: verb.name, file, text, options }).then((job) => setAsked({ id: job.id, text }), (error: Error) => setTrouble(error.message)));
  const latest = useRef({ put, save });
  latest.current = { put, save };

  useEffect(() => {
    if (seat.current === null) return;
    const made = editor(seat.current, text, schema, (next) => latest.current.put(next), () => latest.current.save());
    view.current = made;
    if (opened.line !== undefined) made.goTo(opened.line);
    return made.close;
  }, []);
  useEffect(() => view.current?.show(faults), [faults]);

  const change = (next: string) => {
    view.current?.replace(next);
    put(next);
  };
  const job = jobs.find((each) => each.id === asked?.id);
  useEffect(() => {
    if (job?.state === "done" && job.outcome && asked?.text === text) location.hash = outcomeAt(job.outcome);
  }, [job?.state]);
  return (
    <>
      <h1 class="spoken">Scenario {file}</h1>
      <p class="tools">
        <label class="name">File <Words value={file} put={setFile} /></label>
        <button onClick={save} disabled={saving || (text === saved.text && file === saved.file)}>Save</button>
        <button class="action" onClick={run} disabled={faults.length > 0 || busy || starting}>{verb.title}</button>
        <label class="name" title={verb.about}>or another
          <select value={verb.name} onChange={(event) => { choose("verb", event.currentTarget.value); setVerb(event.currentTarget.value); setOptions({}); }}>
            {verbs.map((each) => <option value={each.name}>{each.title}</option>)}
          </select>
        </label>
        <Choices options={verb.options} chosen={options} choose={(name, value) => setOptions((last) => ({ ...last, [name]: value }))} />
        {faults.length === 0 && saved.version !== null && text === saved.text && <a href={address("/floor", { file: saved.file })}>The hall</a>}
        {text !== saved.text && <button onClick={() => change(saved.text)}>Undo all changes</button>}
        <span class="muted" role="status">{busy ? "checking" : faults.length === 0 ? "no faults" : `${faults.length} fault${faults.length > 1 ? "s" : ""}`}</span>
      </p>
      {trouble && <p class="fault" role="alert">{trouble}</p>}
      {job && hasEnded(job) && <ul class="queue plain-queue"><JobRow job={job} /></ul>}
      <div class="desk">
        <div class="code" ref={seat} />
        <div>
          <Section title="The values that decide most"><Form text={text} schema={schema} change={change} /></Section>
          <Faults faults={faults} goTo={(line) => view.current?.goTo(line)} />
          {faults.length === 0 && <Rough estimate={estimate} />}
        </div>
      </div>
    </>
  );
}

interface Look {
  faults: TextFault[];
  busy: boolean;
  estimate: Estimate;
}

interface Estimate {
  result?: Result;
  /** In place of a result. */
  figures?: DecisionFigure[];
  took?: number;
  /** Why there is none. */
  none?: string;
}

/** What the server says of the text, a moment after the last key. */
function useLook(file: string, text: string): Look {
  const [look, set] = useState<Look>({ faults: [], busy: true, estimate: {} });
  useEffect(() => {
    const ended = new AbortController();
    set((last) => ({ ...last, busy: true }));
    const timer = setTimeout(() => void ask(file, text, ended.signal, set), PAUSE_MS);
    return () => {
      clearTimeout(timer);
      ended.abort();
    };
  }, [file, text]);
  return look;
}

async function ask(file: string, text: string, signal: AbortSignal, set: (look: Look) => void): Promise<void> {
  try {
    const { faults } = await api.check(file, text, signal);
    if (signal.aborted) return;
    set({ faults, busy: false, estimate: {} });
    if (faults.length > 0) return;
    const found = await api.estimate(file, text, signal);
    if (signal.aborted) return;
    set({ faults, busy: false, estimate: estimateOf(found) });
  } catch (error) {
    if (signal.aborted) return;
    set({ faults: [], busy: false, estimate: { none: (error as Error).message } });
  }
}

function estimateOf({ result, figures, faults, took_s: took }: Estimated): Estimate {
  if (result) return { result: result as unknown as Result, took };
  if (figures.length > 0) return { figures, took };
  return { none: faults.map((fault) => [fault.message, fault.hint].filter(Boolean).join("; ")).join("\n") };
}

function Faults({ faults, goTo }: { faults: TextFault[]; goTo: (line: number) => void }) {
  if (faults.length === 0) return null;
  return (
    <Section title={`${faults.length} fault${faults.length > 1 ? "s" : ""}`}>
      <ul class="links">
        {faults.map((fault) => (
          <li>
            {fault.line ? <button class="line" onClick={() => goTo(fault.line ?? 1)}>line {fault.line}</button> : null} {fault.key && <b>{fault.key}: </b>}<Spelt words={fault.message} />
            {fault.hint && <><br /><small><Spelt words={fault.hint} /></small></>}
            {fault.allowed && <><br /><small>allowed: {fault.allowed}</small></>}
          </li>
        ))}
      </ul>
    </Section>
  );
}

function Rough({ estimate }: { estimate: Estimate }) {
  if (estimate.none !== undefined) return <Section title="No rough answer"><p class="note"><Spelt words={estimate.none} /></p></Section>;
  const closed = <p class="note rough">A rough answer: the first variant in closed form{estimate.took === undefined ? "" : `, in ${duration(estimate.took)}`}. The run simulates it.</p>;
  if (estimate.figures) return <>{closed}<section><h2>In closed form</h2><Figures rows={estimate.figures} /></section></>;
  const variant = estimate.result?.variants[0];
  if (variant === undefined || !hasStep(variant)) return <Section title="A rough answer"><p class="muted" role="status">computing</p></Section>;
  return (
    <>
      {closed}
      <Summary variant={variant} />
      <Bill variant={variant} />
    </>
  );
}

/** Rows of the bill that are listed. */
const MOST = 8;

function Bill({ variant }: { variant: Stepped }) {
  const layout = "layouts" in variant ? variant.layouts?.[0] : undefined;
  const rows = [...variant.capex.components].sort((a, b) => b.typical_usd - a.typical_usd).slice(0, MOST);
  return (
    <Section title="Layout and bill">
      {layout && <p>{layout.layout.words}</p>}
      <table>
        <tbody>{rows.map((row) => <tr><td class="text">{row.name}</td><td>{whole(row.count)}</td><td>{wholeDollars(row.typical_usd)}</td></tr>)}</tbody>
      </table>
      <p class="more"><a href={address("/")}>To the runs</a></p>
    </Section>
  );
}
