// Conditions of a node as rows.
import { html } from "../lib/ui.js";
import { Drill, Severity, Time } from "../parts/marks.js";
import { Panel } from "../parts/panel.js";
import { useNow } from "../lib/clock.js";
import { href } from "../state/route.js";
import { entity } from "../text/entity.js";
import { duration, ms } from "../text/time.js";
import { quantity, severityRank, signalName } from "../text/words.js";

const MOST = 50;

export function Conditions({ id, title, about, conditions, empty }) {
  const rows = about ? conditions : [...conditions].sort((a, b) => severityRank(a.severity) - severityRank(b.severity));
  return html`
    <${Panel} id=${id} title=${title} about=${about ?? (conditions.length ? `${conditions.length}, the worst first` : "")}>
      ${rows.length
        ? html`<div class="scrollx"><table class="rows cards conditions"><thead><tr><th>Signal</th><th>Where</th><th>Since</th><th class="num">For</th><th class="num">Value</th><th class="num">Threshold</th></tr></thead>
            <tbody>${rows.slice(0, MOST).map((c) => html`<${Row} key=${c.id} c=${c} />`)}</tbody></table></div>
            ${rows.length > MOST && html`<p class="muted small none">and ${rows.length - MOST} more</p>`}`
        : empty}
    <//>
  `;
}

const value = (v, unit) => (unit === "s" ? duration(v) : quantity(v, unit));

function Row({ c }) {
  return html`
    <tr>
      <td class="name"><a href=${href.event(c.id)}><${Severity} severity=${c.severity}>${signalName(c.signal)}<//></a>${c.window_s && html` <span class="muted small nowrap">in ${duration(c.window_s)}</span>`} <${Drill} drill=${c.drill} /></td>
      <td class="nowrap">${entity(c.entity)}</td>
      <td class="nowrap" data-label="since"><${Time} at=${c.since} decimals=${1} /></td>
      <td class="num" data-label="for"><${Length} c=${c} /></td>
      <td class="num" data-label="value">${c.value == null ? html`<span class="muted">–</span>` : value(c.value, c.unit)}</td>
      <td class="num muted" data-label="threshold">${c.threshold == null ? "–" : value(c.threshold, c.unit)}</td>
    </tr>
  `;
}

function Length({ c }) {
  const now = useNow();
  return duration(((ms(c.until) ?? now) - ms(c.since)) / 1000);
}
