// One node: what is wrong now, how long its ports were down, how it came to its state, and whom it hurt.
import { html } from "../lib/ui.js";
import { path } from "../net/api.js";
import { Icon } from "../parts/icons.js";
import { Ago, State, Time, VerdictTag } from "../parts/marks.js";
import { Empty, Failed, Stale, Waiting } from "../parts/notices.js";
import { Panel } from "../parts/panel.js";
import { useResource } from "../state/resource.js";
import { href } from "../state/route.js";
import { plural } from "../text/words.js";
import { Findings, Health } from "./node_history.js";
import { Ports } from "./node_ports.js";
import { Conditions } from "./node_signals.js";

export function Node({ node }) {
  const mine = (topic, event) => event.partitionkey === node || JSON.stringify(event.data).includes(JSON.stringify(node));
  const { data, error } = useResource(path`/v1/nodes/${node}`, mine);
  if (!data) {
    return html`<h1 tabindex="-1" class="mono">${node}</h1><div class="panel">${error ? html`<${Failed} error=${error} what=${`Node ${node}`} />` : html`<${Waiting} lines=${8} />`}</div>`;
  }
  return html`
    <div class="title">
      <h1 tabindex="-1" class="mono">${node}</h1>
      <div class="facts">
        <span><b><${State} state=${data.state} /></b>${data.since && html` for <b><${Ago} at=${data.since} suffix="" /></b>`}</span>
        <span>${data.heard ? html`heard <b><${Ago} at=${data.heard} /></b>` : "never heard"}</span>
        <span><b>${plural(data.open.length, "open signal")}</b></span>
      </div>
    </div>
    <${Stale} error=${error} />
    <div class="stack">
      <div class="split even">
        <${Conditions} id="open" title="Open signals" conditions=${data.open} empty=${html`<${Empty} title="Nothing is wrong now">Conditions stand here while they hold, the worst first.<//>`} />
        <div class="stack">
          <${Jobs} jobs=${data.jobs} verdicts=${data.verdicts} />
          <${Collectors} collectors=${data.collectors} heard=${data.heard} />
        </div>
      </div>
      <${Ports} ports=${data.ports} />
      <div class="split even">
        <${Conditions} id="recent" title="Cleared signals" about="latest first" conditions=${data.recent} empty=${html`<${Empty} title="None yet">Conditions move here when they end.<//>`} />
        <div class="stack">
          <${Health} transitions=${data.transitions} />
          <${Findings} marks=${data.history} />
        </div>
      </div>
    </div>
  `;
}

const ROLES = { culprit: "to blame", affected: "affected", target: "target" };

function Jobs({ jobs, verdicts }) {
  const known = new Map(verdicts.map((v) => [`${v.job_id}/${v.attempt}`, v]));
  const rows = [
    ...jobs.map((j) => ({ ...j, ...known.get(`${j.job_id}/${j.attempt}`), now: j.until === null })),
    ...verdicts.filter((v) => !jobs.some((j) => j.job_id === v.job_id && j.attempt === v.attempt)),
  ];
  return html`
    <${Panel} id="jobs" title="Jobs">
      ${rows.length
        ? html`<table class="rows"><tbody>${rows.map((r) => html`<tr>
            <td><a class="mono link" href=${href.job(r.job_id, r.attempt)}>${r.job_id}/${r.attempt}</a></td>
            <td class="muted">${r.now ? "running here" : r.since ? html`until <${Time} at=${r.until} />` : ""}</td>
            <td>${r.verdict ? html`<${VerdictTag} verdict=${r.verdict} />` : ""}</td>
            <td class="muted small">${(r.roles ?? []).map((role) => ROLES[role] ?? role).join(", ")}</td></tr>`)}</tbody></table>`
        : html`<${Empty} title="No job uses it">The scheduler has placed nothing here lately.<//>`}
    <//>
  `;
}

const COLLECTOR = { ok: ["good", "good"], absent: ["info", "retired"], degraded: ["warning", "warning"], failed: ["error", "quarantined"] };

function Collectors({ collectors, heard }) {
  const names = Object.keys(collectors).sort();
  return html`
    <${Panel} id="collectors" title="Collectors" about=${heard ? "as of the last heartbeat" : ""}>
      ${names.length
        ? html`<ul class="collectors">${names.map((name) => {
            const { status, reason, lost } = collectors[name];
            const [tone, icon] = COLLECTOR[status] ?? ["warning", "unknown"];
            const about = `${status}${reason ? `: ${reason}` : ""}${lost ? `, ${plural(lost, "record")} lost` : ""}`;
            return html`
              <li>
                <span class="sev" data-severity=${tone}><${Icon} name=${icon} /></span>
                <span class="mono">${name}</span>
                <span class="muted">${about}</span>
              </li>`;
          })}</ul>`
        : html`<${Empty} title="Never heard">No heartbeat has come from it. Is <code>faultwire collect</code> running there?<//>`}
    <//>
  `;
}
