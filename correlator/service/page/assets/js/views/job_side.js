// What could not be seen, and how the verdict came to be what it is.
import { html } from "../lib/ui.js";
import { Severity, Time } from "../parts/marks.js";
import { Empty } from "../parts/notices.js";
import { Panel } from "../parts/panel.js";
import { href } from "../state/route.js";
import { headline } from "../text/verdict.js";
import { plural } from "../text/words.js";

const MOST = 30;
const NAMED = 3;
const FIRST = 6;
const WELL = "Every collector that mattered was well when it mattered.";
const UNKNOWN = "A verdict says which collectors of the affected nodes could not see.";

/** The same gap on many nodes is one row. */
function together(gaps) {
  const groups = new Map();
  for (const gap of gaps) {
    const key = JSON.stringify([gap.collector, gap.status, gap.reason]);
    if (groups.has(key)) groups.get(key).nodes.push(gap.node);
    else groups.set(key, { ...gap, nodes: [gap.node] });
  }
  return [...groups.values()];
}

export function Coverage({ verdict }) {
  const gaps = (verdict?.coverage ?? []).filter((c) => c.status !== "ok");
  const rows = together(gaps);
  return html`
    <${Panel} id="coverage" title="Coverage" about=${gaps.length ? plural(gaps.length, "gap") : ""}>
      ${gaps.length
        ? html`<table class="rows"><thead><tr><th>Collector</th><th>Could not see because</th><th>On</th></tr></thead>
            <tbody>${rows.slice(0, MOST).map((gap) => html`<${Gap} gap=${gap} />`)}</tbody></table>
            ${rows.length > MOST && html`<p class="muted small none">and ${rows.length - MOST} more</p>`}`
        : html`<${Empty} title=${verdict ? "No gaps" : "Not known yet"}>${verdict ? WELL : UNKNOWN}<//>`}
    <//>
  `;
}

const Gap = ({ gap: { collector, status, reason, nodes } }) => html`
  <tr>
    <td class="mono">${collector}</td>
    <td><${Severity} severity="warning">${status}<//> <span class="muted">${reason}</span></td>
    <td>
      ${nodes.slice(0, NAMED).map((n) => html`<a class="mono" href=${href.node(n)}>${n}</a> `)}
      ${nodes.length > NAMED && html`<span class="muted">and ${nodes.length - NAMED} more</span>`}
    </td>
  </tr>
`;

export function Revisions({ revisions, shown, base }) {
  if (revisions.length === 0) return null;
  const falling = [...revisions].reverse();
  const row = (r) => html`
    <li key=${r.id}><a href=${r === falling[0] ? base : `${base}?revision=${r.data.revision}`}
      aria-current=${r.id === shown?.id ? "true" : null}>
      <span class="mono">${r.data.revision}</span>
      <span>${headline(r.data)} <span class="muted small">${r.data.phase}, ${plural(r.data.active.length, "active finding")}</span></span>
      <span class="muted small"><${Time} at=${r.time} decimals=${1} /></span>
    </a></li>`;
  return html`
    <${Panel} id="revisions" title="Revisions" about="how the verdict came to be">
      <ol class="revisions">${falling.slice(0, FIRST).map(row)}</ol>
      ${falling.length > FIRST && html`
        <details><summary>${plural(falling.length - FIRST, "earlier one")}</summary>
          <ol class="revisions">${falling.slice(FIRST).map(row)}</ol>
        </details>`}
    <//>
  `;
}
