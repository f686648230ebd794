/** The queue of jobs, kept up to date by the server's events. */

import { useEffect, useState } from "preact/hooks";
import { duration, percent } from "../format";
import { Spelt } from "../parts";
import type { QueuedJob } from "./api.gen";
import { api, outcomeAt, Refusal } from "./api";

const ENDED = new Set(["done", "failed", "stopped"]);
export const hasEnded = (job: QueuedJob): boolean => ENDED.has(job.state);

/** After a connection that the browser gives up. */
const AGAIN_MS = 2000;
/** Shorter breaks are nobody's concern. */
const PATIENCE_MS = 3000;

export interface Queue {
  /** Latest first. */
  jobs: QueuedJob[];
  /** Whether the server has not answered for a while. */
  silent: boolean;
}

/** Jobs as the server's events tell them; `moved` is called when one has ended, `refused` when nobody is logged in any more. */
export function useJobs(moved: () => void, refused: () => void): Queue {
  const [jobs, set] = useState<ReadonlyMap<string, QueuedJob>>(new Map());
  const [silent, setSilent] = useState(false);
  useEffect(() => {
    let events: EventSource | undefined;
    let timer: ReturnType<typeof setTimeout> | undefined;
    let warning: ReturnType<typeof setTimeout> | undefined;
    let [closed, begun] = [false, false];
    const heard = () => {
      clearTimeout(warning);
      warning = undefined;
      setSilent(false);
    };
    const lost = () => { warning ??= setTimeout(() => setSilent(true), PATIENCE_MS); };
    const later = () => { timer = setTimeout(listen, AGAIN_MS); };
    const hear = (first: QueuedJob[]) => {
      if (closed) return;
      heard();
      set(new Map(first.map((job) => [job.id, job])));
      if (begun) moved();
      begun = true;
      const source = (events = api.events(Math.max(0, ...first.map((job) => job.change))));
      source.addEventListener("open", heard);
      source.addEventListener("job", (event) => {
        const job = JSON.parse((event as MessageEvent<string>).data) as QueuedJob;
        set((known) => new Map(known).set(job.id, job));
        if (hasEnded(job)) moved();
      });
      source.addEventListener("error", () => {
        lost();
        if (source.readyState === EventSource.CLOSED) later(); // an answer that is no stream, of a proxy: the browser gives up
      });
    };
    const listen = () => void api.jobs().then(hear, (error: unknown) => {
      if (closed) return;
      if (error instanceof Refusal && error.status === 401) { refused(); return; }
      lost();
      later();
    });
    listen();
    return () => {
      closed = true;
      clearTimeout(timer);
      clearTimeout(warning);
      events?.close();
    };
  }, []);
  return { jobs: [...jobs.values()].sort((a, b) => b.created - a.created), silent };
}

export function JobRow({ job }: { job: QueuedJob }) {
  const [trouble, setTrouble] = useState<string>();
  const stop = () => api.stop(job.id).catch((error: Error) => setTrouble(error.message));
  return (
    <li class={`job ${job.state}`}>
      <div class="job-head">
        <strong>{nameOf(job)}</strong>
        <span class="muted">{stateWords(job)}</span>
        {job.outcome && <a href={outcomeAt(job.outcome)}>{job.state === "stopped" ? "open what was found by then" : "open the result"}</a>}
        {!hasEnded(job) && <button onClick={stop} aria-label={`stop ${nameOf(job)}`}>Stop</button>}
      </div>
      {job.state === "running" && <progress value={job.share} max={1} aria-label={`${nameOf(job)}: ${percent(job.share, 0)}`} />}
      {job.faults.map((fault) => <p class="fault"><Spelt words={[fault.key && `${fault.key}: ${fault.message}`, !fault.key && fault.message, fault.hint].filter(Boolean).join("; ")} /></p>)}
      {trouble && <p class="fault">{trouble}</p>}
    </li>
  );
}

const nameOf = (job: QueuedJob): string => (job.verb === "run" ? job.file : `${job.verb} ${job.file}`);

function stateWords(job: QueuedJob): string {
  if (job.state === "running") {
    const left = job.eta_s === null ? "" : `, about ${duration(Math.max(1, Math.round(job.eta_s)))} to go`;
    return `${percent(job.share, 0)} ${job.stage}${left}`;
  }
  if (job.state === "queued") return "waits for its turn";
  const took = job.started && job.ended ? ` in ${duration(job.ended - job.started)}` : "";
  return `${job.state}${took}`;
}
