// The first view: which jobs are in trouble, what changed, and every node as a tile.
import { html, useEffect, useMemo, useState } from "../lib/ui.js";
import { listen } from "../net/live.js";
import { Icon } from "../parts/icons.js";
import { Empty, Failed, Stale, Waiting } from "../parts/notices.js";
import { Panel } from "../parts/panel.js";
import { useResource } from "../state/resource.js";
import { useQuery } from "../state/route.js";
import { plural, STATES } from "../text/words.js";
import { Changes } from "./changes.js";
import { FleetMap } from "./fleet_map.js";
import { inOrder, isRunning, JobsTable } from "./jobs_table.js";

const anything = () => true;
const SHOWN_JOBS = 12;

/** The overview, with health events applied the moment they come; the next answer replaces them. */
function useOverview() {
  const overview = useResource("/v1/overview", anything);
  const [early, setEarly] = useState({ of: null, states: new Map() });
  useEffect(
    () =>
      listen((topic, event) => {
        if (topic !== "health") return;
        setEarly(({ of, states }) => ({ of, states: new Map(states).set(event.partitionkey, event.data.state) }));
      }),
    [],
  );
  const data = overview.data;
  if (data && early.of !== data) setEarly({ of: data, states: new Map() });
  const nodes = useMemo(() => {
    if (!data) return [];
    if (!early.states.size || early.of !== data) return data.nodes;
    return data.nodes.map((n) => (early.states.has(n.node) ? { ...n, state: early.states.get(n.node) } : n));
  }, [data, early]);
  return { ...overview, nodes };
}

export function Fleet() {
  const { data, error, nodes } = useOverview();
  if (!data) {
    return html`<h1 class="hidden" tabindex="-1">Fleet</h1><div class="panel">${error ? html`<${Failed} error=${error} />` : html`<${Waiting} lines=${8} />`}</div>`;
  }
  const jobs = inOrder(data.jobs);
  const running = jobs.filter(isRunning).length;
  return html`
    <h1 class="hidden" tabindex="-1">Fleet</h1>
    <${Stale} error=${error} />
    <div class="fleet">
        <${Panel} id="jobs" class="jobs-panel" title="Jobs" about=${jobs.length ? `${running} running, ${jobs.length - running} ended` : ""} tools=${html`<a class="link small" href="/jobs">All jobs</a>`}>
          ${jobs.length
            ? html`<div class="scrollx"><${JobsTable} jobs=${jobs.slice(0, SHOWN_JOBS)} /></div>`
            : html`<${Empty} title="No jobs yet">They come from the scheduler: <code>faultwire job watch</code> reads Slurm or Kubernetes.<//>`}
        <//>
        <${Changes} nodes=${data.nodes} />
        <${Nodes} nodes=${nodes} />
    </div>
  `;
}

function Nodes({ nodes }) {
  const [text, setText] = useQuery("q");
  const [state, setState] = useQuery("state");
  const [trouble, setTrouble] = useQuery("trouble");
  const [by, setBy] = useQuery("by", "name");
  const filter = useMemo(() => ({ text, states: state.split(",").filter(Boolean), trouble: trouble === "1" }), [text, state, trouble]);
  const counts = useMemo(() => {
    const found = new Map();
    for (const n of nodes) found.set(n.state, (found.get(n.state) ?? 0) + 1);
    return found;
  }, [nodes]);
  const troubled = useMemo(() => nodes.filter((n) => n.signals > 0).length, [nodes]);
  const toggle = (name) => {
    const chosen = new Set(filter.states);
    if (!chosen.delete(name)) chosen.add(name);
    setState([...chosen].join(","));
  };
  const none = !nodes.length;
  return html`
    <${Panel} id="nodes" class="nodes-panel" title="Nodes" about=${none ? "" : `${plural(nodes.length, "node")}, ${troubled} with open signals`}
      tools=${!none && html`
        <label class="select">Group by
          <select value=${by} onChange=${(e) => setBy(e.target.value)}>
            <option value="name">name</option><option value="state">state</option><option value="job">job</option>
          </select>
        </label>`}>
      ${none
        ? html`<${Empty} title="No node has been heard of">Start the agent on one: <code>faultwire collect</code>. It appears here with its first heartbeat.<//>`
        : html`
          <div class="filters">
            <input class="field" type="search" aria-label="Filter nodes by name or job" placeholder="Filter by name or job" value=${text} onInput=${(e) => setText(e.target.value)} />
            <div class="chips" role="group" aria-label="Filter by state">
              ${STATES.filter((s) => counts.has(s)).map((s) => html`
                <button class="chip" data-state=${s} aria-pressed=${filter.states.includes(s)} onClick=${() => toggle(s)}><${Icon} name=${s} />${s} <b>${counts.get(s).toLocaleString("en-GB")}</b></button>`)}
              <button class="chip" aria-pressed=${filter.trouble} onClick=${() => setTrouble(filter.trouble ? "" : "1")}><${Icon} name="signal" />in trouble</button>
            </div>
          </div>
          <${FleetMap} nodes=${nodes} filter=${filter} by=${by} />`}
    <//>
  `;
}
