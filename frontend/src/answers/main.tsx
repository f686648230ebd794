import { render } from "preact";
import type { Answer } from "../answers.gen";
import { embedded } from "../result";
import type { Decision } from "../ui/api.gen";
import "../style.css";
import { AnswerView, titleOf } from "./answer";

const root = document.getElementById("app");
if (root === null) throw new Error("the page has no #app");

Promise.all([embedded<Answer>(), embedded<Decision>("railyard-decision")]).then(
  ([answer, said]) => {
    document.title = `${titleOf(answer)} · Railyard`;
    render(
      <>
        <header><h1>{titleOf(answer)}</h1><p class="muted">Railyard {answer.version}</p></header>
        <main><AnswerView answer={answer} said={said} hall={() => undefined} /></main>
      </>,
      root,
    );
    document.documentElement.dataset["ready"] = "true";
  },
  (error: unknown) => {
    render(<p class="failure">The answer in this file cannot be read: {String(error)}. The numbers are also in the JSON file beside it.</p>, root);
  },
);
