// One node's lane: its conditions as bars, its findings as marks.
import { html } from "../lib/ui.js";
import { Icon } from "../parts/icons.js";
import { href } from "../state/route.js";
import { entity } from "../text/entity.js";
import { duration, offset } from "../text/time.js";
import { plural, quantity } from "../text/words.js";
import { clustered } from "./model.js";

export const ROW_PX = 20;

const percent = (part) => `${(part * 100).toFixed(4)}%`;

export function spanLength(span) {
  if (span.signal === "port_outage" && span.value == null && !span.open) return "length unknown";
  return duration((span.b - span.a) / 1000);
}

/** What a bar says: the length of an outage, but the value of what is counted in a window. */
export function figure(span) {
  if (span.window_s && span.value != null) return `${span.unit === "s" ? duration(span.value) : quantity(span.value, span.unit)} in ${duration(span.window_s)}`;
  return spanLength(span);
}

function label(span, origin) {
  const value = span.value != null && span.unit !== "s" ? `, ${quantity(span.value, span.unit)}` : "";
  const role = span.role === "active" ? ", the verdict rests on it" : span.role === "interesting" ? ", not the cause" : "";
  return `${span.node}, ${entity(span.entity)}: ${span.title}, ${span.severity}, from ${offset((span.a - origin) / 1000, 0.01)}, ${spanLength(span)}${span.open ? " so far" : ""}${value}${role}`;
}

function Span({ span, window, budget, origin, index, point }) {
  const [from, to] = window;
  if (span.b < from || span.a > to) return null;
  const width = to - from;
  const a = Math.max(span.a, from);
  const b = Math.min(span.b, to);
  const style = { left: percent((a - from) / width), width: percent((b - a) / width) };
  if (span.signal === "port_outage" && budget && span.b - span.a > budget * 1000 && b > a) {
    style["--cut"] = percent(Math.min(1, Math.max(0, (span.a + budget * 1000 - a) / (b - a))));
  }
  return html`
    <a class="span" href=${span.href} style=${style} tabIndex=${-1} data-index=${index} data-severity=${span.severity} data-role=${span.role}
      data-open=${span.open} data-over=${"--cut" in style} aria-label=${label(span, origin)} onMouseEnter=${() => point(span)} onFocus=${() => point(span)}>
      <span aria-hidden="true">${span.title} <b>${figure(span)}</b></span>
    </a>
  `;
}

function Mark({ cluster, window, origin, index, point }) {
  const { lead, marks, at } = cluster;
  const left = percent((at - window[0]) / (window[1] - window[0]));
  const many = marks.length > 1;
  const role = marks.some((m) => m.role === "active") ? "active" : lead.role;
  const name = `${lead.node}, ${offset((at - origin) / 1000, 0.01)}: ${lead.text}${many ? ` and ${plural(marks.length - 1, "more finding")}` : ""}`;
  const item = many ? { ...lead, more: marks } : lead;
  return html`
    <a class="mark" href=${lead.href} style=${{ left }} tabIndex=${-1} data-index=${index} data-severity=${lead.severity} data-role=${role}
      aria-label=${name} onMouseEnter=${() => point(item)} onFocus=${() => point(item)}>
      ${many ? html`<i>${marks.length > 99 ? "99+" : marks.length}</i>` : html`<${Icon} name=${lead.severity === "info" ? "log" : lead.severity} />`}
    </a>
  `;
}

export function Lane({ lane, window, width, origin, budget, blamed, point, from }) {
  const clusters = clustered(lane.marks, window, width);
  let index = from;
  const rows = [
    ...lane.rows.map((row) => html`<div class="row">${row.spans.map((span) => html`<${Span} key=${span.id} span=${span} window=${window} budget=${budget} origin=${origin} index=${index++} point=${point} />`)}</div>`),
    clusters.length || lane.marks.length
      ? html`<div class="row marks">${clusters.map((c) => html`<${Mark} key=${c.lead.id} cluster=${c} window=${window} origin=${origin} index=${index++} point=${point} />`)}</div>`
      : null,
  ].filter(Boolean);
  return html`
    <div class="lane" role="group" aria-label=${lane.node} data-blamed=${blamed}>
      <div class="who">
        <a class="mono" href=${href.node(lane.node)}>${lane.node}</a>
        <ul>${lane.rows.map((row) => html`<li class="small" style=${{ height: `${ROW_PX}px` }}>${row.first ? entity(row.entity) : ""}</li>`)}</ul>
      </div>
      <div class="rows-of">${rows.length ? rows : html`<div class="row" />`}</div>
    </div>
  `;
}
