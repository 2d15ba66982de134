// Attempts as rows: what runs, since when, on how many nodes, and what was decided.
import { useNow } from "../lib/clock.js";
import { html } from "../lib/ui.js";
import { Icon } from "../parts/icons.js";
import { Drill, JobState, Time, VerdictTag } from "../parts/marks.js";
import { href } from "../state/route.js";
import { place } from "../text/entity.js";
import { duration, ms } from "../text/time.js";
import { actionName } from "../text/words.js";

export const isRunning = (job) => ["RUNNING", "PENDING", "REQUEUED"].includes(job.state);

/** In trouble first, then running, then by start. */
export function inOrder(jobs) {
  const weight = (job) => (isRunning(job) ? 2 : 0) + (job.verdict && job.verdict.domain !== "none" ? 1 : 0);
  return [...jobs].sort((a, b) => weight(b) - weight(a) || (a.started < b.started ? 1 : -1));
}

export const JobsTable = ({ jobs }) => html`
  <table class="rows cards jobs">
    <thead><tr>
      <th>Job</th><th>State</th><th class="num">Nodes</th><th>Started</th><th class="num">For</th><th>Verdict</th><th>Action</th>
    </tr></thead>
    <tbody>${jobs.map((job) => html`<${Row} key=${`${job.job_id}/${job.attempt}`} job=${job} />`)}</tbody>
  </table>
`;

function Row({ job }) {
  const { verdict, action } = job;
  const troubled = verdict && verdict.domain !== "none" && (verdict.node || verdict.entity);
  return html`
    <tr data-job=${job.job_id}>
      <td class="name">
        <a href=${href.job(job.job_id, job.attempt)}><b class="mono">${job.job_id}</b><span class="muted mono">/${job.attempt}</span>${job.name && html` <span class="muted">${job.name}</span>`}</a>
      </td>
      <td class="nowrap">
        <${JobState} state=${job.state} />
      </td>
      <td class="num" data-label="nodes">${job.nodes}</td>
      <td data-label="started"><${Time} at=${job.started} /></td>
      <td class="num" data-label="for"><${Length} job=${job} /></td>
      <td class="verdict">
        <${VerdictTag} verdict=${verdict} />${" "}
        ${troubled && html`<span>${place(verdict)}${verdict.culprits > 1 ? ` and ${verdict.culprits - 1} more` : ""}</span>`}
        <${Drill} drill=${verdict?.drill} />
      </td>
      <td class="action"><${Asked} action=${action} /></td>
    </tr>
  `;
}

function Asked({ action }) {
  if (!action) return html`<span class="muted none">–</span>`;
  const mode = action.held_by?.length ? "held" : action.dry_run ? "dry run" : "";
  return html`
    <a href=${href.event(action.id)}><span class="tag" data-tone="accent"><${Icon} name="action" />${actionName(action.action)}</span></a>${" "}
    <span class="muted small nowrap">${mode}</span>
  `;
}

function Length({ job }) {
  const now = useNow();
  const from = ms(job.started);
  return from === null ? "–" : html`<span class="nowrap">${duration(Math.round(((ms(job.ended) ?? now) - from) / 1000))}</span>`;
}
