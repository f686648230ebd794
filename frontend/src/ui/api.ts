/** Requests to the server; what it refuses arrives as an error in its words. */

import type { Checked, Estimated, FileRow, FileText, QueuedJob, Person, RunRow, Template } from "./api.gen";
import type { Result } from "../result.gen";
import { checked } from "../result";

const ROOT = "/api/v1";

export class Refusal extends Error {
  constructor(readonly status: number, message: string) {
    super(message);
  }
}

async function ask<T>(method: string, path: string, body?: unknown, signal?: AbortSignal): Promise<T> {
  const headers: Record<string, string> = body === undefined ? {} : { "content-type": "application/json" };
  const init: RequestInit = { method, headers, credentials: "same-origin" };
  if (body !== undefined) init.body = JSON.stringify(body);
  if (signal !== undefined) init.signal = signal;
  const answer = await fetch(ROOT + path, init);
  if (answer.ok) return (answer.status === 204 ? undefined : await answer.json()) as T;
  const text = await answer.text();
  throw new Refusal(answer.status, words(text) ?? `the server answered ${answer.status}`);
}

function words(text: string): string | null {
  try {
    const document = JSON.parse(text) as { error?: string; detail?: unknown };
    return document.error ?? (document.detail === undefined ? null : JSON.stringify(document.detail));
  } catch {
    return null;
  }
}

const name = encodeURIComponent;

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
  add: (file: string, text: string) => ask<QueuedJob>("POST", "/jobs", { file, text }),
  stop: (job: string) => ask<QueuedJob>("POST", `/jobs/${name(job)}/stop`, {}),
  runs: () => ask<RunRow[]>("GET", "/runs"),
  result: async (run: string) => checked(await ask<Result>("GET", `/runs/${name(run)}/result`)),
  scenario: async (run: string) => (await fetch(`${ROOT}/runs/${name(run)}/scenario`, { credentials: "same-origin" })).text(),
  report: (run: string) => `${ROOT}/runs/${name(run)}/report`,
  events: (since: number) => new EventSource(`${ROOT}/events?since=${since}`),
};

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
