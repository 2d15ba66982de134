// The verdict card: what happened, how sure that is, and the few moments that matter.
import { html } from "../lib/ui.js";
import { Icon } from "../parts/icons.js";
import { Drill } from "../parts/marks.js";
import { Empty, Waiting } from "../parts/notices.js";
import { href } from "../state/route.js";
import { entity } from "../text/entity.js";
import { clock, day, duration, ms, offset } from "../text/time.js";
import { confidence, ending, headline } from "../text/verdict.js";
import { actionName, plural, subdomainName } from "../text/words.js";

const ICON = { firm: "error", gaps: "error", early: "warning", open: "unknown" };

export function Verdict({ event, onset, latest, timeline, job, waiting }) {
  if (!event) {
    return html`
      <section class="panel verdict" aria-label="Verdict" data-level="none">
        ${waiting ? html`<${Waiting} lines=${3} />` : html`<${Empty} title="No verdict yet">One comes as soon as something is seen that concerns this attempt, and a last one when it has ended.<//>`}
      </section>`;
  }
  const verdict = event.data;
  const sure = confidence(verdict);
  const fine = verdict.domain === "none";
  const old = latest && latest.id !== event.id;
  return html`
    <section class="panel verdict" aria-labelledby="verdict" data-level=${fine ? "fine" : sure.level} data-testid="verdict">
      ${old && html`<p class="stale">Revision ${verdict.revision}, an earlier one. <a class="link" href=${href.job(verdict.job_id, verdict.attempt)}>Show the latest</a></p>`}
      <div class="say">
        <span class="sev big" data-severity=${fine ? "good" : sure.level === "open" || sure.level === "early" ? "warning" : "error"}><${Icon} name=${fine ? "good" : ICON[sure.level]} /></span>
        <div>
          <h2 id="verdict">${headline(verdict)}</h2>
          <p class="muted">${sure.text}</p>
        </div>
      </div>
      <div class="tags">
        ${!fine && html`<span class="tag mono">${verdict.domain}/${verdict.subdomain}</span>`}
        <span class="tag" data-tone=${fine ? "good" : sure.level}>${sure.word}</span>
        <span class="tag">${ending(verdict)}</span>
        <span class="tag">revision ${verdict.revision}</span>
        ${verdict.provenance !== "live" && html`<span class="tag" data-tone="drill">${verdict.provenance} events</span>`}
        <${Drill} drill=${event.drill} />
      </div>
      ${verdict.candidates?.length > 0 && html`<${Candidates} list=${verdict.candidates} />`}
      ${!fine && html`<${Moments} onset=${onset} verdict=${verdict} timeline=${timeline} job=${job} />`}
    </section>
  `;
}

const Candidates = ({ list }) => html`
  <div>
    <h3>Candidates</h3>
    <ul class="candidates">${list.map((c) => html`<li><span class="mono">${c.node ? html`<a class="link" href=${href.node(c.node)}>${c.node}</a>` : ""} ${entity(c.entity)}</span> <span class="muted">${subdomainName(c.subdomain)}</span></li>`)}</ul>
  </div>
`;

/** Onset, action, recovery, end: each as the time since the onset. */
function Moments({ onset, verdict, timeline, job }) {
  const moments = [];
  if (onset !== null) moments.push({ name: "onset", at: "", big: clock(onset, 3), text: `${day(onset)} UTC` });
  const since = (at) => offset((ms(at) - onset) / 1000, 0.01);
  const budget = timeline?.budget_s;
  const action = timeline?.actions?.[0];
  if (action && onset !== null) {
    moments.push({
      name: "action", at: action.time, big: since(action.time), href: href.event(action.id), tone: "accent",
      text: `${actionName(action.action)}${action.held_by?.length ? ", held" : action.dry_run ? ", dry run" : ""}`,
    });
  }
  const outage = timeline?.lanes.flatMap((l) => l.spans.map((s) => ({ ...s, node: l.node }))).find((s) => s.signal === "port_outage" && verdict.culprits.some((c) => c.node === s.node && c.entity === s.entity));
  if (outage && onset !== null) {
    const length = outage.until ? (ms(outage.until) - ms(outage.since)) / 1000 : null;
    moments.push({
      name: length === null ? "outage" : "back after", at: outage.until ?? "9", tone: budget && (length === null || length > budget) ? "error" : "",
      big: length === null ? "still down" : duration(length), href: href.event(outage.id),
      text: budget ? `NCCL waits ${duration(budget)}` : entity(outage.entity),
    });
  }
  if (job.ended && onset !== null) moments.push({ name: "ended", at: job.ended, big: since(job.ended), text: ending(verdict) });
  const affected = verdict.affected_nodes.length;
  moments.sort((a, b) => (a.at < b.at ? -1 : 1));
  return html`
    <dl class="moments">
      ${moments.map((m) => html`<div data-tone=${m.tone}><dt>${m.name}</dt><dd>${m.href ? html`<a href=${m.href}>${m.big}</a>` : m.big}</dd><dd class="muted small">${m.text}</dd></div>`)}
      <div><dt>affected</dt><dd>${plural(affected, "node")}</dd><dd class="muted small">of ${job.nodes}</dd></div>
    </dl>
  `;
}
