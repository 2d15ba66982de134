// A tile a node: its state by colour, shape and name; open signals as a mark. Thousands of them stay cheap
// because a group is only drawn again when one of its nodes changed.
import { html, memo, useMemo, useRef, useState } from "../lib/ui.js";
import { href } from "../state/route.js";
import { filtered, grouped, signature } from "../state/groups.js";
import { Icon } from "../parts/icons.js";
import { plural } from "../text/words.js";

const GLYPHS = { suspect: "!", draining: "↓", quarantined: "×", validating: "?", retired: "–", unknown: "·" };

const density = (count) => (count <= 48 ? "card" : count <= 400 ? "label" : "dot");

function words(n) {
  const signals = n.signals ? `, ${plural(n.signals, "open signal")}, worst ${n.severity}` : "";
  const jobs = n.jobs.length ? `, job ${n.jobs.map((j) => `${j.job_id}/${j.attempt}`).join(", ")}` : "";
  return `${n.node}: ${n.state}${signals}${jobs}`;
}

const tail = (name) => /[^a-zA-Z]*\d[^-_.]*$/.exec(name)?.[0].replace(/^[-_.]+/, "") ?? name;

function tile(n, size) {
  const base = { href: href.node(n.node), tabIndex: -1, "data-node": n.node, "data-state": n.state, "data-severity": n.signals ? n.severity : null };
  if (size === "dot") {
    return html`<a ...${base} class="tile" aria-label=${words(n)} title=${words(n)}>${GLYPHS[n.state] ?? null}</a>`;
  }
  if (size === "label") {
    return html`<a ...${base} class="tile" aria-label=${words(n)} title=${words(n)}><span>${tail(n.node)}</span>${GLYPHS[n.state] && html`<i>${GLYPHS[n.state]}</i>`}</a>`;
  }
  return html`
    <a ...${base} class="tile" aria-label=${words(n)}>
      <b class="mono">${n.node}</b>
      <span class="state" data-state=${n.state}><${Icon} name=${n.state} />${n.state}</span>
      ${n.signals > 0 && html`<span class="sev" data-severity=${n.severity}><${Icon} name=${n.severity} />${plural(n.signals, "signal")}</span>`}
    </a>
  `;
}

const Group = memo(({ label, nodes, size }) => html`
  <section class="group" aria-label=${`${label}, ${plural(nodes.length, "node")}`}>
    <h3><span class="mono">${label}</span> <span>${nodes.length}</span></h3>
    <div class="tiles">${nodes.map((n) => tile(n, size))}</div>
  </section>
`);

/** Hand out the same nodes while a group looks the same, so that `memo` can tell. */
function useSteady(groups) {
  const before = useRef(new Map());
  return useMemo(() => {
    const now = new Map();
    for (const group of groups) {
      const sign = signature(group);
      const known = before.current.get(group.key);
      now.set(group.key, known?.sign === sign ? known : { ...group, sign });
    }
    before.current = now;
    return [...now.values()];
  }, [groups]);
}

/** Arrow keys walk the tiles as they lie; the map is one stop of the tab key. */
function walk(event) {
  const tiles = [...event.currentTarget.querySelectorAll("a.tile")];
  const at = tiles.indexOf(document.activeElement);
  if (at < 0) return;
  let to = -1;
  if (event.key === "ArrowRight") to = at + 1;
  else if (event.key === "ArrowLeft") to = at - 1;
  else if (event.key === "Home") to = 0;
  else if (event.key === "End") to = tiles.length - 1;
  else if (event.key === "ArrowDown" || event.key === "ArrowUp") to = vertical(tiles, at, event.key === "ArrowDown" ? 1 : -1);
  else return;
  event.preventDefault();
  tiles[Math.max(0, Math.min(tiles.length - 1, to))].focus();
}

function vertical(tiles, at, step) {
  const own = tiles[at].getBoundingClientRect();
  let best = at;
  let line = null;
  for (let i = at + step; i >= 0 && i < tiles.length; i += step) {
    const box = tiles[i].getBoundingClientRect();
    if (Math.abs(box.top - own.top) < own.height / 2) continue;
    if (line === null) line = box.top;
    if (Math.abs(box.top - line) > own.height / 2) break;
    if (best === at || Math.abs(box.left - own.left) < Math.abs(tiles[best].getBoundingClientRect().left - own.left)) best = i;
  }
  return best;
}

export function FleetMap({ nodes, filter, by }) {
  const [pointed, setPointed] = useState(null); // a name, so that what is said of it stays true
  const groups = useMemo(() => grouped(filtered(nodes, filter), by), [nodes, filter, by]);
  const steady = useSteady(groups);
  const shown = groups.reduce((sum, g) => sum + g.nodes.length, 0);
  const size = density(shown);
  const point = (event) => setPointed(event.target.closest?.("a.tile")?.dataset.node ?? null);
  const hint = pointed === null ? null : nodes.find((n) => n.node === pointed);
  const enter = (event) => {
    if (event.target !== event.currentTarget) return;
    const map = event.currentTarget;
    (map.querySelector("a.tile:not([data-state=healthy])") ?? map.querySelector("a.tile"))?.focus(); // trouble first
  };
  return html`
    <div class="map" data-size=${size} data-by=${by} tabindex="0" role="group" aria-label="Nodes. Arrow keys walk, Enter opens."
      onKeyDown=${walk} onFocusIn=${point} onFocus=${enter} onMouseOver=${size === "card" ? null : point} onMouseLeave=${() => setPointed(null)}>
      ${steady.map((g) => html`<${Group} key=${g.key} label=${g.label} nodes=${g.nodes} size=${size} />`)}
    </div>
    ${size !== "card" && html`<p class="hint mono" aria-hidden="true">${hint ? words(hint) : "Point at a tile, or press Tab and walk with the arrow keys."}</p>`}
  `;
}
