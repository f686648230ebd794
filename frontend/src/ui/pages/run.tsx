/** One run: what it found, and what can be done with it. */

import { Findings } from "../../app";
import { address } from "../../place";
import { hasStep, type Variant } from "../../result";
import { isServing } from "../../serving";
import { api } from "../api";
import { Files } from "../files";
import { useLoaded } from "../loaded";

/** Timelines that are opened at a time. */
const MOST = 4;

const isPriced = (variant: Variant): boolean => ("cpmt" in variant && variant.cpmt !== null) || ("serving" in variant && "cpmt" in variant.serving && variant.serving.cpmt !== null);

export function RunPage({ run }: { run: string }) {
  const [found] = useLoaded(() => Promise.all([api.result(run), api.decision([run])]), [run]);
  const [views] = useLoaded(() => api.views(run), [run]);
  if (found.error !== undefined) return <p class="failure">{found.error}. <a href="#/">To the runs</a></p>;
  if (found.value === undefined) return <p class="muted" role="status">reading {run}</p>;
  const [result, decision] = found.value;
  const { name, provenance, variants } = result;
  return (
    <>
      <h1>{name}</h1>
      <p class="muted">Railyard {provenance.version} · engine {provenance.engine} · seed {provenance.seed}{provenance.created ? ` · ${new Date(provenance.created).toLocaleString()}` : ""}</p>
      <p class="tools">
        <a class="action" href={api.report(run)} download>Save as one file</a>
        {!("runs" in result.scenario) && <a class="action" href={address("/scenario", { run })}>Change and run again</a>}
        {variants.some(hasStep) && <a href={address("/timeline", { runs: variants.map((_, number) => (number === 0 ? run : `${run}:${number}`)).slice(0, MOST).join(",") })}>Every rank at any zoom</a>}
        {variants.some(isServing) && !("runs" in result.scenario) && <a href={address("/requests", { runs: variants.map((_, number) => (number === 0 ? run : `${run}:${number}`)).slice(0, MOST).join(",") })}>Every request</a>}
        {variants.some(isPriced) && !("runs" in result.scenario) && <a href={address("/decide", { runs: run })}>At other prices</a>}
        {variants.some(hasStep) && <a href={address("/floor", { run })}>The hall, from rack to port</a>}
        {views.value?.map(({ name, title }) => <a href={address("/view", { run, view: name })}>{title}</a>)}
      </p>
      <Files folder={`runs/${run}`} />
      <Findings result={result} decision={decision} />
    </>
  );
}
