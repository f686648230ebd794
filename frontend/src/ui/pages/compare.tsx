/** Several runs side by side, as if one scenario had compared them. */

import { Findings } from "../../app";
import { address, chosen } from "../../place";
import { hasStep } from "../../result";
import { isServing } from "../../serving";
import { api } from "../api";
import { useLoaded } from "../loaded";

export function Compare() {
  const runs = (chosen("runs") ?? "").split(",").filter((name) => name !== "");
  const [found] = useLoaded(() => Promise.all([api.comparison(runs), api.decision(runs)]), [runs.join(",")]);
  if (runs.length < 2) return <p class="failure">Nothing to compare: tick two or more runs. <a href="#/">To the runs</a></p>;
  if (found.error !== undefined) return <p class="failure">{found.error}. <a href="#/">To the runs</a></p>;
  if (found.value === undefined) return <p class="muted" role="status">reading {runs.length} runs</p>;
  const [result, decision] = found.value;
  const { name, provenance } = result;
  return (
    <>
      <h1>{name}</h1>
      <p class="muted">engine {provenance.engine} · Railyard {provenance.version}</p>
      <p class="tools">
        <a href={address("/decide", { runs: runs.join(",") })}>At other prices</a>
        {result.variants.some(hasStep) && <a href={address("/timeline", { runs: runs.join(",") })}>Timelines, aligned</a>}
        {result.variants.some(isServing) && <a href={address("/requests", { runs: runs.join(",") })}>Requests, over each other</a>}
      </p>
      <Findings result={result} decision={decision} />
    </>
  );
}
