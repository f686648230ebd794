/** The view of an answer, whichever command gave it. */

import type { Answer } from "../answers.gen";
import type { Decision as Said } from "../ui/api.gen";
import { Decision } from "../views/decision";
import { AuditView } from "./audit";
import { CalibrationView } from "./calibration";
import { CheckView } from "./check";
import { DiagnosisView } from "./diagnosis";
import { PlacementView } from "./placement";
import { PlanView } from "./plan";
import { ScaleView } from "./scale";
import { TuneView } from "./tune";
import "./answers.css";
import type { Hall } from "./hall";

const TITLES: Record<Answer["format"], string> = {
  "railyard-plan/1": "Plan",
  "railyard-diagnosis/1": "Diagnosis",
  "railyard-tune/1": "Tuning",
  "railyard-audit/1": "Audit",
  "railyard-check/1": "Check",
  "railyard-placement/1": "Placement",
  "railyard-scale/1": "Scaled trace",
  "railyard-calibration/1": "Calibration",
};

export const titleOf = (answer: Answer): string => `${TITLES[answer.format]}: ${answer.name}`;

/** What the answer says, then how it comes to that. */
export function AnswerView({ answer, said, hall }: { answer: Answer; said: Said; hall: Hall }) {
  return <><Decision decision={said} /><Details answer={answer} hall={hall} /></>;
}

function Details({ answer, hall }: { answer: Answer; hall: Hall }) {
  switch (answer.format) {
    case "railyard-plan/1": return <PlanView answer={answer} />;
    case "railyard-diagnosis/1": return <DiagnosisView answer={answer} hall={hall} />;
    case "railyard-tune/1": return <TuneView answer={answer} />;
    case "railyard-check/1": return <CheckView answer={answer} />;
    case "railyard-placement/1": return <PlacementView answer={answer} />;
    case "railyard-calibration/1": return <CalibrationView answer={answer} />;
    case "railyard-scale/1": return <ScaleView answer={answer} />;
    case "railyard-audit/1": return <AuditView answer={answer} hall={hall} />;
  }
}
