// Words with a shape and a colour: states, severities, verdicts; and times that know their full form.
import { useNow } from "../lib/clock.js";
import { html } from "../lib/ui.js";
import { age, clock, day, full, ms } from "../text/time.js";
import { brief, confidence } from "../text/verdict.js";
import { jobState } from "../text/words.js";
import { Icon } from "./icons.js";

export const State = ({ state }) => html`<span class="state" data-state=${state}><${Icon} name=${state} />${state}</span>`;

export const Severity = ({ severity, children }) =>
  html`<span class="sev" data-severity=${severity}><${Icon} name=${severity} />${children ?? severity}</span>`;

const JOB_ICONS = { RUNNING: "live", PENDING: "unknown", COMPLETED: "good" };

/** The scheduler's word on an attempt. */
export const JobState = ({ state }) => html`
  <span class="sev" data-severity=${state === "RUNNING" || state === "COMPLETED" ? "good" : "info"}>
    <${Icon} name=${JOB_ICONS[state] ?? "quarantined"} />${jobState(state)}
  </span>
`;

/** 14:03:22.517; the day too when it is another one than today. The title has all of it. */
export function Time({ at, decimals = 0, date = false }) {
  const t = typeof at === "number" ? at : ms(at);
  if (t === null) return html`<span class="muted">–</span>`;
  const other = date || day(t) !== day(Date.now());
  return html`<time class="nowrap" datetime=${new Date(t).toISOString()} title=${full(t)}>${other ? `${day(t)} ` : ""}${clock(t, decimals)}</time>`;
}

/** "12 s ago", counting. */
export function Ago({ at, suffix = " ago" }) {
  const t = ms(at);
  const now = useNow();
  if (t === null) return html`<span>–</span>`;
  return html`<time class="nowrap" datetime=${at} title=${full(t)}>${age((now - t) / 1000)}${suffix}</time>`;
}

const TONES = { firm: "firm", gaps: "gaps", early: "early", open: "open" };

/** A verdict as a badge, for tables. */
export function VerdictTag({ verdict }) {
  if (!verdict) return html`<span class="muted">–</span>`;
  if (verdict.domain === "none") return html`<span class="tag" data-tone="good"><${Icon} name="good" />nothing wrong</span>`;
  const { level } = confidence(verdict);
  const icon = level === "open" ? "unknown" : level === "early" ? "warning" : "error";
  return html`<span class="tag" data-tone=${TONES[level]}><${Icon} name=${icon} />${brief(verdict)}</span>`;
}

export const Drill = ({ drill }) => (drill ? html`<span class="tag" data-tone="drill">drill</span>` : null);
