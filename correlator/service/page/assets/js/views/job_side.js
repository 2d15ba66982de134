// What could not be seen, and how the verdict came to be what it is.
import { html } from "../lib/ui.js";
import { Icon } from "../parts/icons.js";
import { Time } from "../parts/marks.js";
import { Empty } from "../parts/notices.js";
import { Panel } from "../parts/panel.js";
import { href } from "../state/route.js";
import { headline } from "../text/verdict.js";
import { plural } from "../text/words.js";

const MOST = 30;
const NAMED = 3;

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
            <tbody>${rows.slice(0, MOST).map((c) => html`<tr><td class="mono">${c.collector}</td><td><span class="sev" data-severity="warning"><${Icon} name="warning" />${c.status}</span> <span class="muted">${c.reason}</span></td><td>${c.nodes.slice(0, NAMED).map((n) => html`<a class="mono" href=${href.node(n)}>${n}</a> `)}${c.nodes.length > NAMED ? html`<span class="muted">and ${c.nodes.length - NAMED} more</span>` : ""}</td></tr>`)}</tbody></table>
            ${rows.length > MOST && html`<p class="muted small none">and ${rows.length - MOST} more</p>`}`
        : html`<${Empty} title=${verdict ? "No gaps" : "Not known yet"}>${verdict ? "Every collector that mattered was well when it mattered." : "A verdict says which collectors of the affected nodes could not see."}<//>`}
    <//>
  `;
}

export function Revisions({ revisions, shown, base }) {
  if (revisions.length === 0) return null;
  const latest = revisions.at(-1);
  return html`
    <${Panel} id="revisions" title="Revisions" about="how the verdict came to be">
      <ol class="revisions">${[...revisions].reverse().map((r) => html`
        <li><a href=${r.id === latest.id ? base : `${base}?revision=${r.data.revision}`} aria-current=${r.id === shown?.id ? "true" : null}>
          <span class="mono">${r.data.revision}</span>
          <span><span>${headline(r.data)}</span> <span class="muted small">${r.data.phase}, ${plural(r.data.active.length, "active finding")}</span></span>
          <span class="muted small"><${Time} at=${r.time} decimals=${1} /></span>
        </a></li>`)}
      </ol>
    <//>
  `;
}
