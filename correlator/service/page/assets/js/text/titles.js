// What an event is, as a heading: plain words for what we derived, the machine's own words for what it said.
import { place } from "./entity.js";
import { duration } from "./time.js";
import { headline } from "./verdict.js";
import { actionName, levelName, list, quantity, signalName } from "./words.js";

const TITLES = {
  action: ({ action, nodes, exclude_nodes: excluded }) => `${actionName(action)}: ${list(excluded ?? nodes)}`,
  attribution: (data) => headline(data),
  signal: ({ signal, entity: who, state, level, value, unit }, node) => {
    const step = state === "cleared" ? "cleared" : level ? levelName(level) : state;
    const size = value == null || state === "open" || /^\d/.test(level ?? "") ? "" : `, ${unit === "s" ? duration(value) : quantity(value, unit)}`;
    return `${signalName(signal)} on ${place({ node, entity: who })}, ${step}${size}`;
  },
  health: ({ state, previous }) => `${state}${previous ? `, was ${previous}` : ""}`,
  job: ({ job_id: id, attempt, state }) => `job ${id}, attempt ${attempt}: ${state.toLowerCase()}`,
};

/** `link` is {kind, title, node?, event?}; without the event the service's own title has to do. */
export function titleOf(link) {
  const say = link.event?.data && TITLES[link.kind];
  return say ? say(link.event.data, link.node) : link.title;
}

/** A second line for what does not fit into the heading. */
export function asideOf(link) {
  const data = link.event?.data;
  if (!data) return "";
  if (link.kind === "action") return data.reason;
  if (link.kind === "attribution") return `${data.phase}, revision ${data.revision} of the verdict on job ${data.job_id}, attempt ${data.attempt}`;
  return "";
}
