// One node's lane: its conditions as bars, its findings as marks.
import { html } from "../lib/ui.js";
import { Icon } from "../parts/icons.js";
import { href } from "../state/route.js";
import { entity } from "../text/entity.js";
import { duration, offset } from "../text/time.js";
import { plural, quantity } from "../text/words.js";
import { clustered } from "./model.js";

const percent = (part) => `${(part * 100).toFixed(4)}%`;

export function spanLength(span) {
  if (span.signal === "port_outage" && span.value == null && !span.open) return "length unknown";
  return duration((span.b - span.a) / 1000);
}

/** What a bar says: the length of an outage, but the value of what is counted in a window. */
export function figure(span) {
  if (!span.window_s || span.value == null) return spanLength(span);
  const value = span.unit === "s" ? duration(span.value) : quantity(span.value, span.unit);
  return `${value} in ${duration(span.window_s)}`;
}

const ROLES = { active: ", the verdict rests on it", interesting: ", not the cause" };

function label(span, origin) {
  const value = span.value != null && span.unit !== "s" ? `, ${quantity(span.value, span.unit)}` : "";
  const length = `${spanLength(span)}${span.open ? " so far" : ""}`;
  const from = offset((span.a - origin) / 1000, 0.01);
  const what = `${span.node}, ${entity(span.entity)}: ${span.title}, ${span.severity}`;
  return `${what}, from ${from}, ${length}${value}${ROLES[span.role] ?? ""}`;
}

function Span({ span, window, budget, origin, point }) {
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
    <a class="span" href=${span.href} style=${style} tabIndex=${-1} data-key=${span.key} data-severity=${span.severity} data-role=${span.role}
      data-open=${span.open} data-over=${"--cut" in style} aria-label=${label(span, origin)}
      onMouseEnter=${() => point([span.key])} onFocus=${() => point([span.key])}>
      <span aria-hidden="true">${span.title} <b>${figure(span)}</b></span>
    </a>
  `;
}

function Mark({ cluster, window, origin, point }) {
  const { lead, marks, at } = cluster;
  const left = percent((at - window[0]) / (window[1] - window[0]));
  const others = marks.length - 1;
  const role = marks.some((m) => m.role === "active") ? "active" : lead.role;
  const more = others ? ` and ${plural(others, "more finding")}` : "";
  const name = `${lead.node}, ${offset((at - origin) / 1000, 0.01)}: ${lead.text}${more}`;
  const keys = marks.map((m) => m.key);
  const shape = lead.severity === "info" ? "log" : lead.severity;
  return html`
    <a class="mark" href=${lead.href} style=${{ left }} tabIndex=${-1} data-key=${keys[0]} data-severity=${lead.severity} data-role=${role}
      aria-label=${name} onMouseEnter=${() => point(keys)} onFocus=${() => point(keys)}>
      ${others ? html`<i>${others > 98 ? "99+" : others + 1}</i>` : html`<${Icon} name=${shape} />`}
    </a>
  `;
}

export function Lane({ lane, window, width, origin, budget, blamed, point }) {
  const clusters = clustered(lane.marks, window, width);
  const shared = { window, origin, point };
  return html`
    <div class="lane" role="group" aria-label=${lane.node}>
      <div class="who">
        <a class="mono" href=${href.node(lane.node)}>${lane.node}</a>
        ${blamed && html`<span class="blame small">${blamed}</span>`}
        <ul>${lane.rows.map((row, i) => html`
          <li class="small">${row.entity === lane.rows[i - 1]?.entity ? "" : entity(row.entity)}</li>`)}</ul>
        ${lane.hidden > 0 && html`<span class="muted small">${plural(lane.hidden, "more finding")}</span>`}
      </div>
      <div class="rows-of">
        ${lane.rows.map((row) => html`
          <div class="row">${row.spans.map((s) => html`<${Span} key=${s.key} span=${s} budget=${budget} ...${shared} />`)}</div>`)}
        <div class="row marks">${clusters.map((c) => html`<${Mark} key=${c.marks[0].key} cluster=${c} ...${shared} />`)}</div>
      </div>
    </div>
  `;
}
