import { render } from "preact";
import { App } from "./app";
import { checked, embedded } from "./result";
import type { Result } from "./result.gen";
import "./style.css";
import type { Decision } from "./ui/api.gen";

const root = document.getElementById("app");
if (root === null) throw new Error("the page has no #app");

Promise.all([embedded<Result>().then(checked), embedded<Decision>("railyard-decision")]).then(
  ([result, decision]) => {
    document.title = `${result.name} · Railyard`;
    render(<App result={result} decision={decision} />, root);
    document.documentElement.dataset["ready"] = "true";
  },
  (error: unknown) => {
    render(<p class="failure">The result in this file cannot be read: {String(error)}. The numbers are also in result.json beside it.</p>, root);
  },
);
