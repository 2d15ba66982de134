// From the service's timeline to what is drawn: milliseconds, lanes with rows that do not overlap, lines that
// cross all lanes, and which part of the attempt deserves to be looked at first. Pure.
import { actionName, severityRank, signalName } from "../text/words.js";
import { duration, ms } from "../text/time.js";
import { href } from "../state/route.js";

const LETHAL = 1.15; // the end of the band in which NCCL gives up (docs/signals.md)
const MOST_ROWS = 8; // in one lane
const LEAST_FOCUS_MS = 2_000;
const AFTER_MS = 5_000; // an action this long after the end still belongs to the incident

/** `verdict`: data of the attribution that is shown, or null; `now`: ms, the end of what still lasts. */
export function model(timeline, verdict, now) {
  const roles = evidenceRoles(verdict);
  const from = ms(timeline.from);
  const asked = (timeline.actions ?? []).map((a) => ms(a.time) + AFTER_MS);
  const to = Math.max(ms(timeline.to), ...asked, ...(timeline.ended ? [] : [Math.min(now, ms(timeline.to) + 3_600_000)]));
  const lanes = timeline.lanes.map((lane) => {
    const spans = lane.spans.map((span) => spanOf(span, lane.node, to, roles));
    const { rows, left } = packed(spans);
    const marks = lane.marks.map((mark) => markOf(mark, lane.node, roles)).sort((a, b) => a.at - b.at);
    return { node: lane.node, rows, marks, hidden: (lane.hidden ?? 0) + left };
  });
  const all = lanes.flatMap((lane) => lane.rows.flatMap((row) => row.spans));
  const onset = onsetOf(timeline, verdict);
  const lines = linesOf(timeline, all, onset);
  const marks = lanes.flatMap((lane) => lane.marks);
  const origin = onset ?? ms(timeline.started) ?? from;
  const focus = focusOf({ all, marks, lines, whole: [from, to], onset });
  for (const lane of lanes) lane.quiet = isQuiet(lane, focus);
  const items = new Map([...all, ...marks].map((item) => [item.key, item]));
  return { lanes, lines, items, whole: [from, to], focus, origin, budget: timeline.budget_s ?? null };
}

/** When it began: the first finding that the verdict rests on. The verdict's own `onset` is the earliest time
 * that clocks allow, which is not what stands in the logs that people compare with. */
export function onsetOf(timeline, verdict) {
  const times = (verdict?.active ?? []).map((s) => ms(s.time)).filter((t) => t !== null);
  return times.length ? Math.min(...times) : ms(verdict?.onset ?? timeline?.onset);
}

/** What the verdict made of a piece of evidence: active, interesting or nothing. */
function evidenceRoles(verdict) {
  const byId = new Map();
  const byPlace = new Map();
  for (const role of ["interesting", "active"]) {
    for (const symptom of verdict?.[role] ?? []) {
      for (const id of symptom.evidence) byId.set(id, role);
      byPlace.set(`${symptom.node} ${symptom.entity} ${symptom.code}`, role);
    }
  }
  return (id, node, entity, code) => byId.get(id) ?? byPlace.get(`${node} ${entity} ${code}`) ?? null;
}

// `key` names a thing as long as it is drawn: a condition keeps it while each event about it brings a new `id`.
function spanOf(span, node, to, roles) {
  const a = ms(span.since);
  const open = span.until == null;
  return {
    ...span, kind: "span", key: JSON.stringify([node, span.entity, span.signal, span.since]), node, a, b: Math.max(a, open ? to : ms(span.until)), open,
    role: roles(span.id, node, span.entity, span.signal), title: signalName(span.signal), href: href.event(span.id),
  };
}

const markOf = (mark, node, roles) => ({
  ...mark, code: mark.kind, kind: "mark", key: mark.id, node, at: ms(mark.time),
  role: roles(mark.id, node, null, mark.kind), href: href.event(mark.id),
});

/** Nothing of the incident is seen there: nothing happens in its time but lines that mean nothing. */
function isQuiet(lane, [from, to]) {
  const during = (item) => (item.b ?? item.at) >= from && (item.a ?? item.at) <= to;
  const spans = lane.rows.flatMap((row) => row.spans);
  return !spans.some((s) => s.role === "active" || during(s)) && lane.marks.every((m) => !m.role && (m.severity === "info" || !during(m)));
}

/** Spans of one entity stand in rows of their own, each where there is room. */
export function packed(spans, most = MOST_ROWS) {
  const rows = [];
  let left = 0;
  const order = [...spans].sort((x, y) => severityRank(x.severity) - severityRank(y.severity) || x.a - y.a);
  const worst = new Map();
  for (const span of order) if (!worst.has(span.entity)) worst.set(span.entity, worst.size);
  order.sort((x, y) => worst.get(x.entity) - worst.get(y.entity) || x.a - y.a || y.b - x.b);
  for (const span of order) {
    let row = rows.find((r) => r.entity === span.entity && r.end <= span.a);
    if (!row) {
      if (rows.length >= most) {
        left++;
        continue;
      }
      row = { entity: span.entity, end: -Infinity, spans: [] };
      rows.push(row);
    }
    row.spans.push(span);
    row.end = span.b;
  }
  return { rows, left };
}

function linesOf(timeline, spans, onset) {
  const lines = [];
  const started = ms(timeline.started);
  const ended = ms(timeline.ended);
  if (started !== null) lines.push({ kind: "edge", at: started, text: "started" });
  const budget = timeline.budget_s;
  const outages = spans.filter((s) => s.signal === "port_outage");
  const fatal = budget && (outages.find((s) => s.b - s.a >= budget * 1000) ?? outages.find((s) => s.open));
  if (fatal) {
    const at = fatal.a + budget * 1000;
    lines.push({ kind: "budget", at, until: fatal.a + LETHAL * budget * 1000, text: `NCCL gives up here, ${duration(budget)}`, brief: "NCCL gives up" });
  }
  if (onset !== null) lines.push({ kind: "onset", at: onset, text: "onset" });
  for (const action of timeline.actions ?? []) {
    lines.push({ kind: "action", at: ms(action.time), text: actionName(action.action), href: href.event(action.id), held: action.held_by?.length > 0 });
  }
  if (ended !== null) lines.push({ kind: "edge", at: ended, text: "ended" });
  return lines.sort((a, b) => a.at - b.at);
}

/** From shortly before the onset to shortly after the last thing that followed from it. What only came to light
 * later (a node that is silent since the job is gone) does not stretch it. */
export function focusOf({ all, marks, lines, whole, onset }) {
  const begin = onset ?? -Infinity;
  const ended = lines.findLast((l) => l.kind === "edge" && l.text === "ended");
  const late = (ended?.at ?? Infinity) + AFTER_MS;
  const points = lines.filter((l) => l.kind !== "edge" && (l.kind !== "action" || l.at <= late)).map((l) => l.until ?? l.at);
  if (ended && onset !== null && ended.at >= onset) points.push(ended.at);
  for (const span of all) if (span.role === "active") points.push(span.a, ...(span.open ? [] : [span.b]));
  for (const mark of marks) if (mark.role === "active") points.push(mark.at);
  const last = points.length ? Math.max(...points) : Infinity;
  for (const span of all) if (span.severity !== "info" && span.a >= begin && span.a <= last) points.push(span.a);
  for (const mark of marks) if (mark.at >= begin && mark.at <= last && (onset !== null || mark.severity !== "info")) points.push(mark.at);
  if (!points.length) return whole;
  const a = Math.min(...points, ...(onset === null ? [] : [onset]));
  const b = Math.max(...points);
  const room = Math.max(LEAST_FOCUS_MS, b - a);
  return [Math.max(whole[0], a - room * 0.08), Math.min(whole[1], b + room * 0.12)];
}

/** Blamed nodes first, then by when something was first seen there, then by name. */
export function inOrder(lanes, blamed) {
  const first = (lane) =>
    Math.min(Infinity, ...lane.rows.flatMap((r) => r.spans.map((s) => s.a)), ...lane.marks.map((m) => m.at));
  return lanes
    .map((lane) => ({ lane, weight: blamed.has(lane.node) ? 0 : 1, at: first(lane) }))
    .sort((a, b) => a.weight - b.weight || a.at - b.at || (a.lane.node < b.lane.node ? -1 : 1))
    .map(({ lane }) => lane);
}

/** A lane without the rows that have nothing in the window. */
export const within = (lane, [from, to]) => ({
  ...lane,
  rows: lane.rows.filter((row) => row.spans.some((s) => s.b >= from && s.a <= to)),
});

/** Marks that would lie on each other become one with a number. */
export function clustered(marks, window, width, apart = 14) {
  const scale = width / (window[1] - window[0]);
  const found = [];
  for (const mark of marks) {
    if (mark.at < window[0] || mark.at > window[1]) continue;
    const last = found.at(-1);
    if (last && (mark.at - last.at) * scale < apart) {
      last.marks.push(mark);
      if (weight(mark) < weight(last.lead)) last.lead = mark;
    } else found.push({ at: mark.at, lead: mark, marks: [mark] });
  }
  return found;
}

const weight = (mark) => severityRank(mark.severity) + (mark.role === "active" ? -10 : mark.role === "interesting" ? -5 : 0);

/** Flags above the lanes: each in the first row where its text has room; near the right edge it turns left. */
export function flagRows(lines, x, width, charWidth = 6.6) {
  const rows = [];
  return lines.map((line) => {
    const at = x(line.at);
    const text = (width < 560 && line.brief) || line.text;
    const size = text.length * charWidth + 30;
    const turn = at + size > width && at - size > 0;
    const [from, to] = turn ? [at - size, at] : [at, at + size];
    let row = rows.findIndex((taken) => taken.every(([a, b]) => b <= from || a >= to));
    if (row < 0) row = rows.push([]) - 1;
    rows[row].push([from, to]);
    return { ...line, text, row, turn };
  });
}
