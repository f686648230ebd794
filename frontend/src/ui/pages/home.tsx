/** Runs and scenarios of the folder: what there is, and where to begin. */

import { useState } from "preact/hooks";
import { bytes } from "../../format";
import { Section, Table } from "../../parts";
import { address } from "../../place";
import type { QueuedJob, RunRow } from "../api.gen";
import { api } from "../api";
import { JobRow, hasEnded } from "../jobs";
import { useLoaded } from "../loaded";

/** Jobs that ended and are still listed. */
const SHOWN = 5;
const MOST_PAGES = 20;

export function Home({ turn, jobs }: { turn: number; jobs: QueuedJob[] }) {
  const [runs] = useLoaded(api.runs, [], [turn]);
  const ended = jobs.filter((job) => hasEnded(job) && job.state !== "done").slice(0, SHOWN);
  return (
    <>
      <h1 class="spoken">Runs and scenarios</h1>
      {runs.value?.length === 0 && <Questions />}
      <Runs runs={runs.value} error={runs.error} />
      {ended.length > 0 && (
        <Section title="Ended without a result">
          <ul class="queue plain-queue">{ended.map((job) => <JobRow key={job.id} job={job} />)}</ul>
        </Section>
      )}
      <Answers turn={turn} />
      <Records turn={turn} />
      <Pages turn={turn} />
      <Start />
    </>
  );
}

/** Where a first visit begins. */
const QUESTIONS = [
  { title: "Which fabric?", about: "Price and network tax of six fabrics for one training job.", to: address("/scenario", { from: "fabrics" }) },
  { title: "Which layout?", about: "The fastest parallel layout of your model that fits the memory.", to: address("/scenario", { from: "layout" }) },
  { title: "What is wrong with my network?", about: "Upload what the fabric manager or the switches say; each wrong cable gets its cost.", to: address("/ask", { verb: "audit" }) },
];

function Questions() {
  return (
    <ul class="verbs" aria-label="Begin with a question">
      {QUESTIONS.map(({ title, about, to }) => <li><a href={to}><b>{title}</b><br /><small>{about}</small></a></li>)}
    </ul>
  );
}

function Runs({ runs, error }: { runs: RunRow[] | undefined; error: string | undefined }) {
  const [picked, pick] = useState<ReadonlySet<string>>(new Set());
  const flip = (run: string) => pick((known) => {
    const next = new Set(known);
    if (!next.delete(run)) next.add(run);
    return next;
  });
  if (error !== undefined) return <p class="failure">{error}</p>;
  if (runs === undefined) return <Section title="Runs"><p class="muted">reading the folder</p></Section>;
  if (runs.length === 0) return <Section title="Runs"><p>None yet. Begin with a question above or a scenario below; what <code>railyard run</code> writes into this folder appears here too.</p></Section>;
  return (
    <Section title="Runs" note="Tick two or more to compare them; the same folders as the command line's.">
      <p class="tools">
        <a class={`action ${picked.size < 2 ? "off" : ""}`} aria-disabled={picked.size < 2} href={picked.size < 2 ? "#/" : address("/compare", { runs: [...picked].join(",") })}>
          Compare {picked.size > 1 ? `${picked.size} runs` : ""}
        </a>
      </p>
      <Table
        rows={runs}
        columns={[
          { head: "pick", text: true, cell: (row) => <input type="checkbox" aria-label={`compare ${row.run}`} checked={picked.has(row.run)} onChange={() => flip(row.run)} /> },
          { head: "run", text: true, cell: (row) => <a href={address(`/run/${encodeURIComponent(row.run)}`)} title={row.run}>{row.name}</a> },
          { head: "verdict", text: true, cell: (row) => <span class="said" title={row.sentence}>{row.sentence}</span> },
          { head: "variants", cell: (row) => row.rows.length, wide: true },
          { head: "when", text: true, by: (row) => new Date(row.created).toLocaleString(), wide: true },
        ]}
      />
    </Section>
  );
}

const KINDS: Record<string, string> = { plan: "plan", diagnosis: "diagnosis", tune: "tuning", audit: "audit", check: "check", placement: "placement", scale: "scaled trace", calibration: "calibration" };

function Answers({ turn }: { turn: number }) {
  const [answers] = useLoaded(api.answers, [], [turn]);
  if (answers.error !== undefined) return <Section title="Plans, diagnoses, tunings, audits and others"><p class="fault">{answers.error}</p></Section>;
  if (answers.value === undefined || answers.value.length === 0) return null;
  return (
    <Section title="Plans, diagnoses, tunings, audits and others" note={<>Ask for one <a href="#/ask">here</a>; what <code>railyard plan</code> kept is listed too, and what other commands kept with <code>--out runs</code>.</>}>
      <Table
        rows={answers.value}
        columns={[
          { head: "what", text: true, cell: (row) => KINDS[row.kind] ?? row.kind },
          { head: "of", text: true, cell: (row) => <a href={address(`/answer/${encodeURIComponent(row.answer)}`)} title={row.answer}>{row.name}</a> },
          { head: "verdict", text: true, cell: (row) => <span class="said" title={row.sentence}>{row.sentence}</span> },
          { head: "when", text: true, by: (row) => new Date(row.changed * 1000).toLocaleString(), wide: true },
        ]}
      />
    </Section>
  );
}

/** What `railyard observe --out` read of traces: opened as timelines of runs are. */
function Records({ turn }: { turn: number }) {
  const [records] = useLoaded(api.records, [], [turn]);
  if (records.value === undefined || records.value.length === 0) return null;
  return (
    <Section title="Measured" note={<>Records that <code>railyard observe --out FILE.parquet</code> made of traces.</>}>
      <ul class="links">{records.value.map((row) => <li><a href={address("/timeline", { runs: `@${row.file}` })}>{row.file}</a> <small>{bytes(row.bytes)}</small></li>)}</ul>
    </Section>
  );
}

function Pages({ turn }: { turn: number }) {
  const [pages] = useLoaded(api.pages, [], [turn]);
  if (pages.value === undefined || pages.value.length === 0) return null;
  return (
    <Section title="Deployments and other pages" note={<>What <code>railyard deploy</code>, <code>accept</code> and others wrote into this folder.</>}>
      <ul class="links">
        {pages.value.slice(0, MOST_PAGES).map((row) => <li><a href={address("/page", { file: row.file })}>{row.title}</a> <small>{row.file}, {new Date(row.changed * 1000).toLocaleString()}</small></li>)}
      </ul>
    </Section>
  );
}

function Start() {
  const [files] = useLoaded(api.files, []);
  const [templates] = useLoaded(api.templates, []);
  return (
    <div class="pair">
      <Section title="Scenarios of this folder">
        {files.value?.length === 0 && <p class="muted">None yet.</p>}
        {files.error && <p class="fault">{files.error}</p>}
        <ul class="links">
          {(files.value ?? []).map((row) => <li><a href={address("/scenario", { file: row.file })}>{row.file}</a> <small>{bytes(row.bytes)}</small></li>)}
        </ul>
      </Section>
      <Section title="Begin from">
        <ul class="links">
          {(templates.value ?? []).map((row) => <li><a href={address("/scenario", { from: row.name })}>{row.name}</a><br /><small>{row.about}</small></li>)}
        </ul>
      </Section>
    </div>
  );
}
