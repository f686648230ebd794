/** Requests to the server; what it refuses arrives as an error in its words. */

import type { Answer } from "../answers.gen";
import type { AnswerRow, Checked, Decision, Estimated, FileRow, FileText, InputRow, Marks, NewJob, Outcome, OutputRow, PageRow, QueuedJob, Person, Repriced, RunRow, SliceSeen, Strips, Template, VerbSpec, ViewTitle, Window } from "./api.gen";
import { Packed } from "./packed";
import type { Picture, Result } from "../result.gen";
import { address } from "../place";
import { checked } from "../result";

const ROOT = "/api/v1";

export class Refusal extends Error {
  constructor(readonly status: number, message: string) {
    super(message);
  }
}

function request(method: string, body: unknown, signal: AbortSignal | undefined): RequestInit {
  const headers: Record<string, string> = body === undefined ? {} : { "content-type": "application/json" };
  const init: RequestInit = { method, headers, credentials: "same-origin" };
  if (body !== undefined) init.body = JSON.stringify(body);
  if (signal !== undefined) init.signal = signal;
  return init;
}

async function ask<T>(method: string, path: string, body?: unknown, signal?: AbortSignal): Promise<T> {
  const answer = await fetch(ROOT + path, request(method, body, signal));
  if (answer.ok) return (answer.status === 204 ? undefined : await answer.json()) as T;
  const text = await answer.text();
  throw new Refusal(answer.status, words(text) ?? `the server answered ${answer.status}`);
}

async function put<T>(path: string, body: Blob): Promise<T> {
  const answer = await fetch(ROOT + path, { method: "PUT", body, headers: { "content-type": "application/octet-stream" }, credentials: "same-origin" });
  if (answer.ok) return (await answer.json()) as T;
  throw new Refusal(answer.status, words(await answer.text()) ?? `the server answered ${answer.status}`);
}

function words(text: string): string | null {
  try {
    const document = JSON.parse(text) as { error?: string; detail?: unknown };
    return document.error ?? (document.detail === undefined ? null : JSON.stringify(document.detail));
  } catch {
    return null;
  }
}

async function columns<Head>(path: string, body?: unknown, signal?: AbortSignal): Promise<Packed<Head>> {
  const answer = await fetch(ROOT + path, request(body === undefined ? "GET" : "POST", body, signal));
  if (answer.ok) return new Packed<Head>(await answer.arrayBuffer());
  throw new Refusal(answer.status, words(await answer.text()) ?? `the server answered ${answer.status}`);
}

const name = encodeURIComponent;
const query = (values: object): string => new URLSearchParams(Object.entries(values).map(([key, value]) => [key, String(value)])).toString();

export const api = {
  me: () => ask<Person>("GET", "/me"),
  login: (token: string) => ask<void>("POST", "/login", { token }),
  logout: () => ask<void>("POST", "/logout", {}),
  templates: () => ask<Template[]>("GET", "/templates"),
  schema: () => ask<Schema>("GET", "/schema"),
  files: () => ask<FileRow[]>("GET", "/files"),
  read: (file: string) => ask<FileText>("GET", `/file?file=${name(file)}`),
  write: (file: string, text: string, version: string | null) => ask<FileText>("PUT", `/file?file=${name(file)}`, { text, version }),
  check: (file: string, text: string, signal: AbortSignal) => ask<Checked>("POST", "/check", { file, text }, signal),
  estimate: (file: string, text: string, signal: AbortSignal) => ask<Estimated>("POST", "/estimate", { file, text }, signal),
  jobs: () => ask<QueuedJob[]>("GET", "/jobs"),
  verbs: () => ask<VerbSpec[]>("GET", "/verbs"),
  inputs: () => ask<InputRow[]>("GET", "/inputs"),
  upload: (file: string, body: Blob) => put<FileRow>(`/uploads?file=${name(file)}`, body),
  add: (job: Partial<NewJob>) => ask<QueuedJob>("POST", "/jobs", job),
  stop: (job: string) => ask<QueuedJob>("POST", `/jobs/${name(job)}/stop`, {}),
  runs: () => ask<RunRow[]>("GET", "/runs"),
  result: async (run: string) => checked(await ask<Result>("GET", `/runs/${name(run)}/result`)),
  views: (run: string) => ask<ViewTitle[]>("GET", `/runs/${name(run)}/views`),
  tables: (run: string, view: string) => ask<Sheet[]>("GET", `/runs/${name(run)}/views/${name(view)}`),
  columns: <Head>(run: string, view: string, variant: number) => columns<Head>(`/runs/${name(run)}/views/${name(view)}?variant=${variant}`),
  comparison: async (runs: string[]) => checked(await ask<Result>("GET", `/comparison?${runs.map((run) => `run=${name(run)}`).join("&")}`)),
  decision: (runs: string[]) => ask<Decision>("GET", `/decision?${runs.map((run) => `run=${name(run)}`).join("&")}`),
  records: () => ask<FileRow[]>("GET", "/records"),
  strips: (of: Timed) => ask<Strips>("GET", timed(of, "", {})),
  window: (of: Timed, seen: Omit<Window, "variant">, signal: AbortSignal) => columns<{ first: number; count: number }>(timed(of, "/window", seen), undefined, signal),
  slice: (of: Timed, lane: number, at_us: number, signal: AbortSignal) => ask<SliceSeen>("GET", timed(of, "/slice", { lane, at_us }), undefined, signal),
  prices: (runs: string[], changes: Record<string, number>, signal: AbortSignal) =>
    ask<Repriced>("GET", `/prices?${[...runs.map((run) => `run=${name(run)}`), ...Object.entries(changes).map(([price, value]) => `change=${name(`${price}:${value}`)}`)].join("&")}`, undefined, signal),
  answers: () => ask<AnswerRow[]>("GET", "/answers"),
  answer: (answer: string) => ask<Answer>("GET", `/answers/${name(answer)}`),
  said: (answer: string) => ask<Decision>("GET", `/answers/${name(answer)}/decision`),
  answerPage: (answer: string) => `${ROOT}/answers/${name(answer)}/page`,
  marks: (answer: string) => ask<Marks>("GET", `/answers/${name(answer)}/marks`),
  pages: () => ask<PageRow[]>("GET", "/pages"),
  outputs: (folder: string) => ask<OutputRow[]>("GET", `/outputs?folder=${name(folder)}`),
  outputFile: (folder: string, file: string) => `${ROOT}/outputs/file?folder=${name(folder)}&name=${name(file)}`,
  archive: (folder: string) => `${ROOT}/outputs/archive?folder=${name(folder)}`,
  page: (file: string) => `${ROOT}/page?file=${name(file)}`,
  hall: (of: Place) => columns<HallHead>(...placed("hall", of)),
  requests: (run: string, variant: number) => columns<{ requests: number; end_s: number }>(`/runs/${name(run)}/requests?variant=${variant}`),
  requestRows: (run: string, variant: number, order: string, first: number, count: number) =>
    columns<{ first: number; count: number }>(`/runs/${name(run)}/requests/rows?${query({ variant, order, first, count })}`),
  load: (run: string, variant: number) => columns<LoadHead>(`/runs/${name(run)}/load?variant=${variant}`),
  loadOfCables: async (run: string, variant: number, first: number, count: number) =>
    (await columns<{ first: number; count: number }>(`/runs/${name(run)}/load/cables?${query({ variant, first, count })}`)).column("load") as Uint8Array,
  cables: (of: Place) => columns<{ loaded: boolean }>(...placed("cables", of)),
  scenario: async (run: string) => (await fetch(`${ROOT}/runs/${name(run)}/scenario`, { credentials: "same-origin" })).text(),
  report: (run: string) => `${ROOT}/runs/${name(run)}/report`,
  events: (since: number) => new EventSource(`${ROOT}/events?since=${since}`),
};

/** Where what a job gave is opened. */
export const outcomeAt = (outcome: Outcome): string =>
  outcome.view === "page" ? address("/page", { file: outcome.name }) : address(`/${outcome.view}/${name(outcome.name)}`);

/** As much of a JSON schema as completion and the form read. */
export interface Schema {
  $defs?: Record<string, Schema>;
  $ref?: string;
  properties?: Record<string, Schema>;
  anyOf?: Schema[];
  oneOf?: Schema[];
  allOf?: Schema[];
  items?: Schema;
  enum?: unknown[];
  const?: unknown;
  examples?: unknown[];
  default?: unknown;
  description?: string;
  type?: string;
}

/** A table of text. */
export interface Sheet {
  title: string;
  headings: string[];
  rows: string[][];
  /** Columns of numbers. */
  right: number[];
}

/** Whose hall: that of a variant of a run, of a scenario that has not been run, or of what an answer is about. */
export type Place = { run: string; variant: number } | { file: string; text: string } | { answer: string };

/** Whose timeline: that of a variant of a run, or a record that was measured. */
export type Timed = { run: string; variant: number } | { file: string };

const timed = (of: Timed, what: string, values: object): string =>
  "file" in of ? `/record/timeline${what}?${query({ file: of.file, ...values })}` : `/runs/${name(of.run)}/timeline${what}?${query({ variant: of.variant, ...values })}`;

const placed = (what: string, of: Place): [string, unknown?] =>
  "answer" in of ? [`/answers/${name(of.answer)}/${what}`] : "run" in of ? [`/runs/${name(of.run)}/${what}?variant=${of.variant}`] : [`/${what}`, of];

export interface LoadHead {
  end_us: number;
  windows: number;
  picture: Picture;
}

/** What a hall says besides its columns. */
export interface HallHead {
  names: string[];
  roles: string[];
  boxes: string[];
  /** What scenarios call each device; empty where they call it by its number. */
  spoken: string[];
  networks: string[];
  tiers: { network: string; name: string; medium: string }[];
  cables: number;
  servers: number;
  accelerators_per_server: number;
  remarks: string[];
  rack_units: number;
  /** Of a rack, in widths of one. */
  rack_depth: number;
}
