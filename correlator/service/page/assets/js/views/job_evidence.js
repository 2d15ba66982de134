// What the verdict rests on, and what was seen but is not the cause, with the rule that said so.
import { html } from "../lib/ui.js";
import { Icon } from "../parts/icons.js";
import { Empty } from "../parts/notices.js";
import { Panel } from "../parts/panel.js";
import { href } from "../state/route.js";
import { place } from "../text/entity.js";
import { full, ms, offset } from "../text/time.js";
import { list, plural } from "../text/words.js";

const CAUSE = 5; // tiers up to this one can be causes, those above it feel what others did (docs/rules.md)
const MOST = 40;
const MOST_IDS = 3;

export function Evidence({ verdict, origin }) {
  if (!verdict) return html`<${Panel} id="evidence" title="Evidence"><${Empty} title="Nothing yet">Findings appear here when a verdict weighs them.<//><//>`;
  const { active, interesting } = verdict;
  return html`
    <${Panel} id="evidence" title="Evidence" about=${`${plural(verdict.rules.length, "rule")} fired, ruleset ${verdict.ruleset}`}>
      <div class="evidence">
        <h3>Active: the verdict rests on it</h3>
        ${active.length ? html`<${List} symptoms=${active} active origin=${origin} />` : html`<p class="muted none">Nothing is left that could be the cause.</p>`}
        <h3>Interesting: seen, but not the cause</h3>
        ${interesting.length ? html`<${List} symptoms=${interesting} origin=${origin} />` : html`<p class="muted none">Nothing was set aside.</p>`}
        <details><summary>Rules in the order in which they fired</summary><p class="mono small rules">${verdict.rules.join(" → ") || "none"}</p></details>
      </div>
    <//>
  `;
}

/** The same finding on many nodes, set aside for the same reason or felt as the same effect, is one line; causes
 * stand each for itself and first. Pure. */
export function together(symptoms) {
  const groups = new Map();
  const order = [...symptoms].sort((a, b) => (a.tier > CAUSE) - (b.tier > CAUSE) || (a.time < b.time ? -1 : a.time > b.time ? 1 : 0));
  for (const s of order) {
    const cause = !s.demoted_by && s.tier <= CAUSE;
    const key = JSON.stringify(cause ? [s.code, s.node, s.entity, s.time] : [s.code, s.demoted_by, s.reason, s.peer]);
    const group = groups.get(key);
    if (group) group.push(s);
    else groups.set(key, [s]);
  }
  return [...groups.values()];
}

function List({ symptoms, active, origin }) {
  const groups = together(symptoms);
  return html`
    <ul class="symptoms">${groups.slice(0, MOST).map((g) => html`<${Symptom} s=${g[0]} same=${g} active=${active} origin=${origin} />`)}</ul>
    ${groups.length > MOST && html`<p class="muted small none">and ${groups.length - MOST} more in the answer of the API</p>`}
  `;
}

function Symptom({ s, same, active, origin }) {
  const cause = active && s.tier <= CAUSE;
  const ids = same.flatMap((other) => other.evidence);
  const places = [...new Set(same.filter((other) => other.node || other.entity).map(place))];
  return html`
    <li data-state=${active ? "active" : "interesting"}>
      <span class="sev" data-severity=${cause ? "error" : "info"}><${Icon} name=${cause ? "error" : active ? "log" : "info"} /></span>
      <div>
        <p>
          <b class="mono">${s.code}</b>${" "}
          ${places.length > 2 && html`<b>${plural(places.length, "place")}</b>: `}${list(places)}${" "}
          ${s.peer && html`<span class="muted">blames ${s.peer}</span>`}
        </p>
        ${s.demoted_by && html`<p class="why"><span class="tag mono">${s.demoted_by}</span> <span class="muted">${s.reason}</span></p>`}
        ${ids.length > 0 && html`
          <p class="small refs">
            ${ids.slice(0, MOST_IDS).map((id, i) => html`<a class="link" href=${href.event(id)}>evidence ${ids.length > 1 ? i + 1 : ""}</a> `)}
            ${ids.length > MOST_IDS && html`<span class="muted">and ${ids.length - MOST_IDS} more</span>`}
          </p>`}
      </div>
      <time class="muted small nowrap" datetime=${s.time} title=${full(ms(s.time))}>${origin === null ? "" : offset((ms(s.time) - origin) / 1000, 0.01)}</time>
    </li>
  `;
}
