// Everything about the things under the pointer or the focus, in one place that does not move.
import { html } from "../lib/ui.js";
import { Drill, Severity } from "../parts/marks.js";
import { entity } from "../text/entity.js";
import { clock, duration, offset } from "../text/time.js";
import { levelName, quantity } from "../text/words.js";
import { spanLength } from "./lane.js";

const ROLES = { active: "the verdict rests on it", interesting: "seen, but not the cause" };
const MOST = 4;

/** `items`: one bar, or the marks that lie on each other; empty when nothing is pointed at. */
export function Inspector({ items, origin, budget }) {
  if (!items.length) {
    return html`
      <p class="inspect muted">
        Point at a bar or a mark, or press Tab and walk with the arrow keys.${" "}
        <kbd>+</kbd> <kbd>−</kbd> zoom, <kbd>Shift</kbd> with arrows moves,${" "}
        <kbd>0</kbd> shows the incident, <kbd>Enter</kbd> opens the evidence.
      </p>`;
  }
  const facts = items[0].kind === "span"
    ? html`<${SpanFacts} span=${items[0]} origin=${origin} budget=${budget} />`
    : html`<${MarkFacts} marks=${items} origin=${origin} />`;
  return html`<div class="inspect" aria-live="off">${facts}</div>`;
}

const at = (t, origin) => `${offset((t - origin) / 1000, 0.001)} (${clock(t, 3)})`;

function SpanFacts({ span, origin, budget }) {
  const over = span.signal === "port_outage" && budget ? (span.b - span.a) / 1000 - budget : null;
  return html`
    <b><${Severity} severity=${span.severity}>${span.title}<//></b>
    <span><span class="mono">${span.node}</span>, ${entity(span.entity)}</span>
    <span>from ${at(span.a, origin)}${span.open ? ", still going on" : ` to ${at(span.b, origin)}`}</span>
    <span>${spanLength(span)}${span.open ? " so far" : ""}</span>
    ${over !== null && html`<span>${over > 0 ? `${duration(over)} longer than NCCL waits` : `${duration(-over)} less than NCCL waits`}</span>`}
    ${span.value != null && span.unit !== "s" && html`<span>${quantity(span.value, span.unit)}${span.threshold != null ? ` against ${quantity(span.threshold, span.unit)}` : ""}</span>`}
    ${span.window_s && html`<span>in a window of ${duration(span.window_s)}</span>`}
    ${span.level && html`<span>passed: ${levelName(span.level)}</span>`}
    ${span.role && html`<span class="muted">${ROLES[span.role]}</span>`}
    <${Drill} drill=${span.drill} />
  `;
}

function MarkFacts({ marks, origin }) {
  return html`
    ${marks.slice(0, MOST).map((m) => html`
      <div class="line">
        <${Severity} severity=${m.severity}><span class="mono">${m.code}</span><//>
        <span class="nowrap">${at(m.at, origin)}</span>
        <span class="mono text">${m.text}</span>
        ${m.userspace && html`<span class="tag" data-tone="drill">written by a program, not the kernel</span>`}
        ${m.role && html`<span class="muted">${ROLES[m.role]}</span>`}
      </div>`)}
    ${marks.length > MOST && html`<span class="muted">and ${marks.length - MOST} more: zoom in to tell them apart</span>`}
  `;
}
