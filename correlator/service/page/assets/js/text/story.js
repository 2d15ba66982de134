// One live event as one line of the list of changes. Pure: an event in, words out; null for what is no news.
import { entity, place } from "./entity.js";
import { duration } from "./time.js";
import { headline } from "./verdict.js";
import { actionName, levelName, list, plural, quantity, signalName, stateRank } from "./words.js";
import { href } from "../state/route.js";

const nodeOf = (event) => event.node ?? event.partitionkey ?? "";

const STORIES = { signals: signal, health, attributions: attribution, actions: action };

/** {key, time, icon, tone, what, about, href, drill}: events with the same key are one condition, told anew. */
export function story(topic, event) {
  const told = event?.data && STORIES[topic]?.(event);
  return told ? { time: event.time, id: event.id, drill: Boolean(event.drill), ...told } : null;
}

function signal(event) {
  const { signal: name, entity: who, state, severity, since, value, unit, level, detail, window_s: window } = event.data;
  if (severity === "info" || detail?.observe_only) return null;
  const node = nodeOf(event);
  const where = place({ node, entity: who });
  const cleared = state === "cleared";
  let about = where;
  if (name === "port_outage") {
    const budget = detail?.budget_s;
    if (cleared) about = `${where} is back${value == null ? "" : ` after ${duration(value)}`}`;
    else if (value == null) about = `${where} is down`;
    else about = `${where} down for ${duration(value)}${budget ? ` of the ${duration(budget)} that NCCL waits` : ""}`;
  } else if (value != null && !cleared) {
    about = `${where}: ${unit === "s" ? duration(value) : quantity(value, unit)}${window ? ` in ${duration(window)}` : ""}`;
  }
  const step = cleared ? "cleared" : name === "port_outage" && level && level !== "open" ? levelName(level) : "";
  return {
    key: `signal ${node} ${name} ${who} ${since} ${window ?? ""}`,
    icon: cleared ? "good" : severity,
    tone: cleared ? "good" : severity,
    what: `${signalName(name)}${step ? `, ${step}` : ""}`,
    about,
    href: href.event(event.id),
  };
}

const healthKey = (node, state, since) => `health ${node} ${state} ${since}`;

/** A node that is in trouble since before the page was opened, as the overview tells it; null for a healthy one. */
export function standing({ node, state, since, signals }) {
  if (state === "healthy" || !since) return null;
  return {
    key: healthKey(node, state, since),
    id: "",
    time: since,
    icon: state,
    tone: "warning",
    what: `${node} is ${state}`,
    about: signals ? plural(signals, "open signal") : "",
    href: href.node(node),
  };
}

function health(event) {
  const { state, previous, reasons } = event.data;
  const node = nodeOf(event);
  const why = reasons?.length ? list([...new Set(reasons.map((r) => `${signalName(r.signal)} on ${entity(r.entity)}`))], 2) : "";
  const worse = previous ? stateRank(state) < stateRank(previous) : state !== "healthy";
  return {
    key: healthKey(node, state, event.data.since),
    icon: state,
    tone: state === "healthy" ? "good" : worse ? "warning" : "info",
    what: `${node} is ${state}`,
    about: [previous && `was ${previous}`, why].filter(Boolean).join("; "),
    href: href.node(node),
  };
}

function attribution(event) {
  const data = event.data;
  if (data.domain === "none" && data.terminal_state !== "COMPLETED") return null;
  return {
    key: `verdict ${data.job_id} ${data.attempt}`,
    icon: "verdict",
    tone: data.domain === "none" ? "good" : data.phase === "final" ? "error" : "warning",
    what: headline(data),
    about: `verdict on job ${data.job_id}, attempt ${data.attempt}; ${data.phase}, revision ${data.revision}`,
    href: href.job(data.job_id, data.attempt),
  };
}

function action(event) {
  const data = event.data;
  const held = (data.guards ?? []).filter((g) => !g.passed);
  const target = data.action === "interrupt_and_restart" && data.job_id ? `job ${data.job_id}` : list(data.nodes ?? []);
  const mode = held.length ? `held by ${plural(held.length, "guard")}` : data.dry_run ? "dry run" : "to be carried out";
  return {
    key: `action ${event.id}`,
    icon: "action",
    tone: "accent",
    what: `${actionName(data.action)}: ${target}`,
    about: `${mode}; ${data.reason}`,
    href: href.event(event.id),
  };
}
