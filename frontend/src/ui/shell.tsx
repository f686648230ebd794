/** What stands around every page: where one is, who one is, what runs. */

import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import { chosen, onMove, page } from "../place";
import type { Person, QueuedJob } from "./api.gen";
import { api } from "./api";
import { Files } from "./files";
import { JobRow, hasEnded, useJobs } from "./jobs";
import { useLoaded } from "./loaded";
import { Compare } from "./pages/compare";
import { Home } from "./pages/home";
import { Login } from "./pages/login";
import { RunPage } from "./pages/run";
import { ScenarioPage } from "./pages/scenario";

/** The page, and how often one has gone to another: what a page chooses by itself changes the address, and is no move. */
function usePage(): [page: string, moves: number] {
  const [moves, count] = useState(0);
  useEffect(() => onMove(() => count((last) => last + 1)), []);
  return [page(), moves];
}

export function Shell() {
  const [turn, next] = useState(0);
  const again = () => next((count) => count + 1);
  const [me] = useLoaded(api.me, [turn]); // whoever was there may be somebody else now
  if (me.error !== undefined) return <Login failed={me.error} done={again} />;
  if (me.value === undefined) return null;
  return <Inside me={me.value} left={again} />;
}

function Inside({ me, left }: { me: Person; left: () => void }) {
  const [here, moves] = usePage();
  const [turn, next] = useState(0);
  const { jobs, silent } = useJobs(() => next((count) => count + 1), left);
  const open = jobs.filter((job) => !hasEnded(job));
  return (
    <>
      <a class="skip" href="#content" onClick={(event) => { event.preventDefault(); document.getElementById("content")?.focus(); }}>To the content</a>
      <nav class="bar" aria-label="Pages">
        <a class="brand" href="#/">Railyard</a>
        <a href="#/" aria-current={here === "" || here === "/" ? "page" : undefined}>Runs</a>
        <a href="#/scenario" aria-current={here.startsWith("/scenario") ? "page" : undefined}>Scenario</a>
        <a href="#/ask" aria-current={here === "/ask" ? "page" : undefined}>Ask</a>
        <span class="grow" />
        {silent && <span class="fault" role="status">the server does not answer; trying again</span>}
        {open.length > 0 && <span class="muted" role="status">{open.length} in the queue</span>}
        {me.tokens && <button onClick={() => api.logout().then(left, left)}>Log out {me.name}</button>}
      </nav>
      {open.length > 0 && <ul class="queue" aria-label="Queue">{open.map((job) => <JobRow key={job.id} job={job} />)}</ul>}
      <main id="content" tabIndex={-1}>
        <Page key={moves} here={here} turn={turn} jobs={jobs} />
      </main>
    </>
  );
}

/** Pages of their own that views have: `pages/NAME.tsx` of the view NAME exports `View`. */
const DRAWN = import.meta.glob<{ View?: ComponentType<{ run: string; view: string }> }>("./pages/*.tsx");

async function drawn(view: string): Promise<ComponentType<{ run: string; view: string }>> {
  const found = await DRAWN[`./pages/${view}.tsx`]?.();
  return found?.View ?? (await import("./pages/view")).ViewPage;
}

function Page({ here, turn, jobs }: { here: string; turn: number; jobs: QueuedJob[] }) {
  if (here.startsWith("/run/")) return <RunPage key={here} run={decodeURIComponent(here.slice(5))} />;
  if (here === "/scenario") return <ScenarioPage jobs={jobs} />;
  if (here.startsWith("/answer/")) return <Late page={() => import("./pages/answer").then((each) => each.AnswerPage)} given={{ answer: decodeURIComponent(here.slice(8)) }} />;
  if (here === "/timeline") return <Late page={() => import("./pages/timeline").then((each) => each.TimelinePage)} given={{}} />;
  if (here === "/requests") return <Late page={() => import("./pages/requests").then((each) => each.RequestsPage)} given={{}} />;
  if (here === "/view") return <Late key={chosen("view")} page={() => drawn(chosen("view") ?? "")} given={{ run: chosen("run") ?? "", view: chosen("view") ?? "" }} />;
  if (here === "/floor") return <Late page={() => import("./pages/floor").then((each) => each.FloorPage)} given={{}} />;
  if (here === "/ask") return <Late page={() => import("./pages/ask").then((each) => each.AskPage)} given={{ jobs }} />;
  if (here === "/decide") return <Late page={() => import("./pages/decide").then((each) => each.DecidePage)} given={{}} />;
  if (here === "/page") return <Written key={chosen("file")} file={chosen("file") ?? ""} />;
  if (here === "/compare") return <Compare />;
  if (here === "" || here === "/") return <Home turn={turn} jobs={jobs} />;
  return <p class="failure">There is no page `{here}`. <a href="#/">To the runs</a></p>;
}

/** A page that a command wrote; it may draw, and nothing else. */
function Written({ file }: { file: string }) {
  const [root, folder, rest] = file.split("/");
  const kept = (root === "deployments" || root === "runs") && rest !== undefined;
  return (
    <>
      <h1 class="spoken">Page {file}</h1>
      <p class="muted">{file}</p>
      {kept && <Files folder={`${root}/${folder}`} />}
      <iframe class="written" sandbox="allow-scripts" src={api.page(file)} title={file} />
    </>
  );
}

/** A page whose code comes when it is opened. */
function Late<Props extends object>({ page: fetched, given }: { page: () => Promise<ComponentType<Props>>; given: Props }) {
  const [Found] = useLoaded(async () => ({ Page: await fetched() }), []);
  if (Found.error !== undefined) return <p class="failure">{Found.error}</p>;
  return Found.value === undefined ? <p class="muted" role="status">opening</p> : <Found.value.Page {...given} />;
}
