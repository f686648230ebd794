/** Several runs side by side, as if one scenario had compared them. */

import { Findings } from "../../app";
import { chosen } from "../../place";
import type { Result } from "../../result.gen";
import { api } from "../api";
import { useLoaded } from "../loaded";

export function Compare() {
  const runs = (chosen("runs") ?? "").split(",").filter((name) => name !== "");
  const [results] = useLoaded(() => Promise.all(runs.map(api.result)), [runs.join(",")]);
  if (results.error !== undefined) return <p class="failure">{results.error}. <a href="#/">To the runs</a></p>;
  if (results.value === undefined) return <p class="muted" role="status">reading {runs.length} runs</p>;
  const joined = join(results.value);
  if (joined === undefined) return <p class="failure">Nothing to compare: tick two or more runs. <a href="#/">To the runs</a></p>;
  return (
    <>
      <h1>{joined.name}</h1>
      <p class="muted">{results.value.map((result) => `${result.name}: ${result.provenance.engine}, Railyard ${result.provenance.version}`).join(" · ")}</p>
      <Findings result={joined} />
    </>
  );
}

/** The variants of all, each named after its run too; the verdict of one says nothing of the others and goes. */
function join(results: Result[]): Result | undefined {
  const first = results[0];
  if (first === undefined) return undefined;
  const { verdict: _verdict, ...rest } = first;
  return {
    ...rest,
    name: results.map((result) => result.name).join(" against "),
    provenance: { ...first.provenance, left_out: [...new Set(results.flatMap((result) => result.provenance.left_out))] },
    variants: results.flatMap((result, number) =>
      result.variants.map((variant) => ({ ...variant, name: title(result, variant.name, number + 1) })),
    ) as Result["variants"],
  };
}

function title(result: Result, variant: string, number: number): string {
  return result.variants.length === 1 ? `${number} ${result.name}` : `${number} ${result.name}: ${variant}`;
}
