/** The queue of runs, kept up to date by the server's events. */

import { useEffect, useState } from "preact/hooks";
import { duration, percent } from "../format";
import { Spelt } from "../parts";
import type { QueuedJob } from "./api.gen";
import { api, outcomeAt } from "./api";

const ENDED = new Set(["done", "failed", "stopped"]);
export const hasEnded = (job: QueuedJob): boolean => ENDED.has(job.state);

/** Jobs, latest first; `ended` is called for each that ends from now on. */
export function useJobs(ended: (job: QueuedJob) => void): QueuedJob[] {
  const [jobs, set] = useState<Map<string, QueuedJob>>(new Map());
  useEffect(() => {
    let events: EventSource | undefined;
    let closed = false;
    api.jobs().then((first) => {
      if (closed) return;
      set(new Map(first.map((job) => [job.id, job])));
      events = api.events(Math.max(0, ...first.map((job) => job.change)));
      events.addEventListener("job", (event) => {
        const job = JSON.parse((event as MessageEvent<string>).data) as QueuedJob;
        set((known) => new Map(known).set(job.id, job));
        if (hasEnded(job)) ended(job);
      });
    }, () => undefined);
    return () => {
      closed = true;
      events?.close();
    };
  }, []);
  return [...jobs.values()].sort((a, b) => b.created - a.created);
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
