import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { ButtonRow } from "./parts";
import { choose as chooseAt, chosen as chosenAt, onMove } from "./place";
import { hasPackets } from "./packet";
import { hasStep, type Stepped } from "./result";
import type { OperateVariant, Result } from "./result.gen";
import type { Decision as DecisionDocument } from "./ui/api.gen";
import { isOperate } from "./operate";
import { isServing } from "./serving";
import { Believed, Differences } from "./views/believed";
import { Bottleneck } from "./views/bottleneck";
import { Comparison } from "./views/comparison";
import { Cost } from "./views/cost";
import { Decision } from "./views/decision";
import { Faults } from "./views/faults";
import { isJobs, Jobs } from "./views/jobs";
import { Collectives, Layouts, Memory } from "./views/tables";
import { OperateComparison, OperateDetails } from "./views/operate";
import { Network } from "./views/network";
import { Packets } from "./views/packets";
import { Power } from "./views/power";
import { Provenance } from "./views/provenance";
import { ServingComparison, ServingDetails } from "./views/serving";
import { Storage } from "./views/storage";
import { Summary } from "./views/summary";
import { Timeline } from "./views/timeline";
import { Waterfall } from "./views/waterfall";
import { isWide, WideComparison, WideDetails } from "./views/wide";

const usefulHour = ({ operate }: OperateVariant): number => operate.usd.per_useful_accelerator_hour?.typical ?? Infinity;

/** The variant that the address names, else the one that leads: of months of jobs, the one whose useful hour costs least. */
function chosenFromUrl({ variants, verdict }: Result): number {
  const cheapest = variants.filter(isOperate).sort((one, other) => usefulHour(one) - usefulHour(other))[0];
  const name = chosenAt("variant") ?? verdict?.leading ?? cheapest?.name;
  return Math.max(0, variants.findIndex((variant) => variant.name === name));
}

function useVariant(result: Result): [number, (index: number) => void] {
  const [chosen, setChosen] = useState(() => chosenFromUrl(result));
  const choose = (index: number) => {
    const variant = result.variants[index];
    if (variant === undefined) return;
    chooseAt("variant", variant.name);
    setChosen(index);
  };
  useEffect(() => onMove(() => setChosen(chosenFromUrl(result))), [result]);
  return [chosen, choose];
}

interface Found {
  result: Result;
  decision: DecisionDocument;
}

export function App({ result, decision }: Found) {
  return (
    <>
      <header>
        <div>
          <h1>{result.name}</h1>
          <p class="muted">
            Railyard {result.provenance.version} · engine {result.provenance.engine} · seed {result.provenance.seed}
          </p>
        </div>
      </header>
      <main>
        <Findings result={result} decision={decision} />
      </main>
    </>
  );
}

/** All that a result says, conclusion first. */
export function Findings({ result, decision }: Found) {
  const [chosen, choose] = useVariant(result);
  const variant = result.variants[chosen];
  if (variant === undefined) return <p class="failure">This result holds no variant.</p>;
  const packets = hasPackets(variant) && (
    <Packets key={variant.name} variant={variant} all={result.variants.filter(hasPackets)} said={result.provenance.left_out} />
  );
  const compared = result.variants.filter(hasStep);
  const served = result.variants.filter(isServing);
  const operated = result.variants.filter(isOperate);
  const wide = result.variants.filter(isWide);
  return (
    <>
      <Decision
        decision={decision}
        chosen={variant.name}
        choose={(name) => choose(result.variants.findIndex((each) => each.name === name))}
      />
      {compared.length > 1 && compared.length === result.variants.length && (
        <Comparison variants={compared} chosen={chosen} choose={choose} />
      )}
      {served.length > 1 && served.length === result.variants.length && (
        <ServingComparison variants={served} chosen={chosen} choose={choose} />
      )}
      {operated.length > 1 && operated.length === result.variants.length && (
        <OperateComparison variants={operated} chosen={chosen} choose={choose} />
      )}
      {wide.length > 1 && wide.length === result.variants.length && (
        <WideComparison variants={wide} chosen={chosen} choose={choose} />
      )}
      {result.verdict && <Differences verdict={result.verdict} />}
      {result.variants.length > 1 && (
        <ButtonRow label="Details of" names={result.variants.map((each) => each.name)} chosen={chosen} choose={choose} />
      )}
      {isOperate(variant) && <OperateDetails key={variant.name} variant={variant} />}
      {isWide(variant) && <WideDetails key={variant.name} variant={variant} />}
      {isJobs(variant) && <Jobs variant={variant} />}
      {isServing(variant) && <ServingDetails key={variant.name} variant={variant} alone={result.variants.length === 1} />}
      {hasStep(variant) ? <Training variant={variant} packets={packets} /> : packets}
      {"model_error" in variant && variant.model_error && <Believed rows={variant.model_error} />}
      <Provenance result={result} />
    </>
  );
}

function Training({ variant, packets }: { variant: Stepped; packets: ComponentChildren }) {
  return (
    <>
      <Summary variant={variant} />
      <Faults variant={variant} />
      <Waterfall variant={variant} />
      <Bottleneck variant={variant} />
      <Timeline key={variant.name} variant={variant} />
      <Network variant={variant} />
      <Storage variant={variant} />
      {packets}
      <Cost variant={variant} />
      <Power variant={variant} />
      <Collectives variant={variant} />
      <Layouts variant={variant} />
      <Memory variant={variant} />
    </>
  );
}
