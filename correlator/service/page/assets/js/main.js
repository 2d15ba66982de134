import { App } from "./app.js";
import { html, render } from "./lib/ui.js";
import * as live from "./net/live.js";
import * as changes from "./state/changes.js";
import * as route from "./state/route.js";
import "./state/theme.js";

route.start();
changes.start();
live.start();
const root = document.getElementById("app");
root.replaceChildren();
render(html`<${App} />`, root);
