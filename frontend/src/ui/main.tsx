import { render } from "preact";
import "../style.css";
import { Shell } from "./shell";
import "./ui.css";

const root = document.getElementById("app");
if (root === null) throw new Error("the page has no #app");
render(<Shell />, root);
document.documentElement.dataset["ready"] = "true";
