// Which nodes are shown, and how they stand together. Pure.
import { STATES, stateRank } from "../text/words.js";

const MOST = 100; // nodes of one name in one row; more is split into ranges
const collator = new Intl.Collator("en", { numeric: true });

/** {text, states: [..], trouble: bool} -> the nodes that match, in natural order of their names. */
export function filtered(nodes, { text = "", states = [], trouble = false }) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  return nodes
    .filter((n) => {
      if (states.length && !states.includes(n.state)) return false;
      if (trouble && !n.signals && n.state === "healthy") return false;
      return words.every((w) => n.node.toLowerCase().includes(w) || n.jobs.some((j) => j.job_id.toLowerCase().includes(w)));
    })
    .sort((a, b) => collator.compare(a.node, b.node));
}

/** [{key, label, nodes}]; `by` is name, state or job. */
export function grouped(nodes, by) {
  if (by === "state") return byState(nodes);
  if (by === "job") return byJob(nodes);
  return byName(nodes);
}

function collect(nodes, keysOf) {
  const groups = new Map();
  for (const node of nodes) {
    for (const key of keysOf(node)) {
      const group = groups.get(key);
      if (group) group.push(node);
      else groups.set(key, [node]);
    }
  }
  return groups;
}

function byState(nodes) {
  const groups = collect(nodes, (n) => [STATES.includes(n.state) ? n.state : "unknown"]);
  return [...groups].sort((a, b) => stateRank(a[0]) - stateRank(b[0])).map(([key, list]) => ({ key, label: key, nodes: list }));
}

function byJob(nodes) {
  const groups = collect(nodes, (n) => (n.jobs.length ? n.jobs.map((j) => `${j.job_id}/${j.attempt}`) : [""]));
  return [...groups]
    .sort((a, b) => (a[0] === "") - (b[0] === "") || collator.compare(a[0], b[0]))
    .map(([key, list]) => ({ key: key || "idle", label: key ? `job ${key}` : "no job", nodes: list }));
}

/** `rack3-node-07` stands with `rack3-node-08`: the name up to its last number. */
function byName(nodes) {
  const groups = collect(nodes, (n) => [n.node.replace(/\d+(?!.*\d).*$/, "")]);
  return [...groups].flatMap(([prefix, list]) => {
    if (list.length <= MOST) return [{ key: prefix, label: rangeOf(list), nodes: list }];
    const parts = [];
    for (let i = 0; i < list.length; i += MOST) {
      const part = list.slice(i, i + MOST);
      parts.push({ key: `${prefix}${i}`, label: rangeOf(part), nodes: part });
    }
    return parts;
  });
}

function rangeOf(list) {
  const first = list[0].node;
  const last = list.at(-1).node;
  if (list.length === 1) return first;
  let same = 0;
  while (same < last.length && first[same] === last[same]) same++;
  while (same > 0 && /\d/.test(last[same - 1])) same--; // never cut a number
  return `${first}–${last.slice(same)}`;
}

/** What a group looks like; equal text means that nothing has to be drawn again. */
export const signature = (group) => group.nodes.map((n) => `${n.node}:${n.state}:${n.severity ?? ""}:${n.signals}`).join("|");
