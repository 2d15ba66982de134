// What was asked of controllers, and the guards that let it pass or held it.
import { html } from "../lib/ui.js";
import { Icon } from "../parts/icons.js";
import { Ago, Drill } from "../parts/marks.js";
import { Empty, Waiting } from "../parts/notices.js";
import { Panel } from "../parts/panel.js";
import { useResource } from "../state/resource.js";
import { href } from "../state/route.js";
import { path } from "../net/api.js";
import { ms, offset } from "../text/time.js";
import { actionName, list, plural } from "../text/words.js";

export function Actions({ actions, origin }) {
  return html`
    <${Panel} id="actions" title="Actions">
      ${!actions
        ? html`<${Waiting} lines=${2} />`
        : actions.length
          ? html`<ul class="actions">${actions.map((a) => html`<${Action} key=${a.id} action=${a} origin=${origin} />`)}</ul>`
          : html`<${Empty} title="None asked for">One is asked for when a cause is firm and something can still be saved, or when a suspect should be checked; and only if every guard passes.<//>`}
    <//>
  `;
}

function Action({ action, origin }) {
  const { data } = useResource(path`/v1/events/${action.id}`);
  const full = data?.event?.data;
  const [mode, tone] = action.held_by.length ? ["held", "early"] : action.dry_run ? ["dry run", "drill"] : ["asked for", "accent"];
  return html`
    <li>
      <p class="head"><span class="sev" data-severity="info"><${Icon} name="action" /></span> <a href=${href.event(action.id)}><b>${actionName(action.action)}</b></a>
        <span class="muted">${list(action.exclude_nodes ?? action.nodes)}</span>
        <span class="tag" data-tone=${tone}>${mode}</span> <${Drill} drill=${action.drill} />
        <span class="muted small">${origin !== null ? offset((ms(action.time) - origin) / 1000, 0.01) : html`<${Ago} at=${action.time} />`}</span></p>
      <p class="muted">${action.reason}</p>
      ${full?.guards?.length > 0 && html`<${Guards} guards=${full.guards} />`}
    </li>
  `;
}

/** Those that held an action are in sight, those that let it pass a click away. */
function Guards({ guards }) {
  const held = guards.filter((g) => !g.passed);
  const passed = guards.filter((g) => g.passed);
  return html`
    ${held.length > 0 && html`<ul class="guards">${held.map((g) => html`<${Guard} g=${g} />`)}</ul>`}
    ${passed.length > 0 && html`
      <details class="passed">
        <summary><span class="sev" data-severity="good"><${Icon} name="good" /></span> ${plural(passed.length, "guard")} passed</summary>
        <ul class="guards">${passed.map((g) => html`<${Guard} g=${g} />`)}</ul>
      </details>`}
  `;
}

const Guard = ({ g }) => html`
  <li>
    <span class="sev" data-severity=${g.passed ? "good" : "error"}>
      <${Icon} name=${g.passed ? "good" : "quarantined"} label=${g.passed ? "passed" : "did not pass"} />
    </span>
    <span class="mono">${g.guard}</span>
    <span class="muted">${g.detail}</span>
  </li>
`;
