/** Everything that can be asked of the server, each verb with the form that it describes. */

import { useState } from "preact/hooks";
import { Section, Spelt } from "../../parts";
import { address, choose, chosen } from "../../place";
import type { FileRow, InputRow, QueuedJob, VerbSpec } from "../api.gen";
import { api } from "../api";
import { Choices, Pick, type Given } from "../asking";
import { JobRow } from "../jobs";
import { useLoaded } from "../loaded";
import { firstOnly, useOnce } from "../once";
import { Words } from "../words";

export function AskPage({ jobs }: { jobs: QueuedJob[] }) {
  const [verbs] = useLoaded(api.verbs, []);
  const [inputs, again] = useLoaded(api.inputs, [], [jobs.length]);
  const [scenarios] = useLoaded(api.files, []);
  const [named] = useState(() => chosen("verb")); // another verb is another page: this one is about to go
  const error = verbs.error ?? inputs.error ?? scenarios.error;
  if (error !== undefined) return <p class="failure">{error}</p>;
  if (verbs.value === undefined || inputs.value === undefined || scenarios.value === undefined) return <p class="muted" role="status">reading the folder</p>;
  const verb = verbs.value.find((each) => each.name === named);
  return (
    <>
      <h1>{verb === undefined ? "What can be asked" : verb.title}</h1>
      <ul class="verbs" aria-label="What can be asked">
        {verbs.value.map((each) => (
          <li><a href={address("/ask", { verb: each.name })} aria-current={each === verb ? "true" : undefined}><b>{each.title}</b><br /><small><Spelt words={each.about} /></small></a></li>
        ))}
      </ul>
      {verb !== undefined && <Form key={verb.name} verb={verb} rows={inputs.value} scenarios={scenarios.value} jobs={jobs} arrived={again} />}
    </>
  );
}

interface Parts {
  verb: VerbSpec;
  rows: readonly InputRow[];
  scenarios: readonly FileRow[];
  jobs: QueuedJob[];
  arrived: () => void;
}

function Form({ verb, rows, scenarios, jobs, arrived }: Parts) {
  const [given, set] = useState<Given>(() => ({
    files: Object.fromEntries(verb.inputs.map((input) => [input.name, (chosen(input.name) ?? "").split("\n").filter(Boolean)])),
    options: Object.fromEntries(verb.options.flatMap((option) => (chosen(option.name) === null ? [] : [[option.name, chosen(option.name) ?? ""]]))),
  }));
  const [file, setFile] = useState(chosen("file") ?? "");
  const [engine, setEngine] = useState(chosen("engine") ?? "");
  const [vary, setVary] = useState(chosen("vary") ?? "");
  const [asked, setAsked] = useState<string>();
  const [trouble, setTrouble] = useState<string>();
  const keep = (name: string, value: string, put: (value: string) => void) => {
    put(value);
    choose(name, value || null);
  };
  /** From what is given by then: an upload ends long after it was begun. */
  const give = (name: string, next: (files: readonly string[]) => string[]) =>
    set((last) => {
      const files = next(last.files[name] ?? []);
      choose(name, files.join("\n") || null);
      return { ...last, files: { ...last.files, [name]: files } };
    });
  const [starting, start] = useOnce(async () => {
    setTrouble(undefined);
    try {
      const text = verb.scenario ? (await api.read(file)).text : "";
      const files = Object.fromEntries(Object.entries(given.files).filter(([, names]) => names.length > 0));
      const scenario = verb.scenario ? { file, text } : {};
      const job = await api.add({ verb: verb.name, ...scenario, engine: engine || null, vary: vary.split("\n").filter(Boolean), files, options: given.options });
      setAsked(job.id);
    } catch (error) {
      setTrouble((error as Error).message);
    }
  });
  const ready = verb.scenario ? file !== "" : verb.inputs.some((input) => given.files[input.name]?.length) && verb.inputs.every((input) => !input.needed || given.files[input.name]?.length);
  const job = jobs.find((each) => each.id === asked);
  return (
    <Section title={`${verb.title}: what it is given`} note={<Spelt words={verb.about} />}>
      <form onSubmit={(event) => { event.preventDefault(); start(); }}>
        {verb.scenario && (
          <label class="pick"><b>Scenario</b><br />
            <select value={file} onChange={(event) => keep("file", event.currentTarget.value, setFile)}>
              <option value="">choose one of this folder</option>
              {scenarios.map((row) => <option value={row.file}>{row.file}</option>)}
            </select>
          </label>
        )}
        {verb.inputs.map((input) => <Pick key={input.name} verb={verb.name} input={input} rows={rows} given={given.files[input.name] ?? []} give={(next) => give(input.name, next)} arrived={arrived} />)}
        <p class="tools">
          {verb.engine && <label class="name">Engine <Words value={engine} placeholder="the scenario's" put={(words) => keep("engine", words, setEngine)} /></label>}
          {verb.vary && <label class="name">Vary <Words value={vary} placeholder="fabric=roce,uec" put={(words) => keep("vary", words, setVary)} /></label>}
          <Choices options={verb.options} chosen={given.options} choose={(name, value) => keep(name, value, () => set((last) => ({ ...last, options: { ...last.options, [name]: value } })))} />
        </p>
        <p class="tools"><button class="action" disabled={!ready || starting} onClick={firstOnly}>{verb.title}</button></p>
      </form>
      {trouble && <p class="fault" role="alert"><Spelt words={trouble} /></p>}
      {job && <ul class="queue plain-queue"><JobRow job={job} /></ul>}
    </Section>
  );
}
