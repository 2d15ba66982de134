// One attempt: the verdict in plain words, the incident over time, and what the verdict rests on.
import { html, useMemo } from "../lib/ui.js";
import { path } from "../net/api.js";
import { JobState, Time } from "../parts/marks.js";
import { Empty, Failed, Stale, Waiting } from "../parts/notices.js";
import { Panel } from "../parts/panel.js";
import { useResource } from "../state/resource.js";
import { useRevisions } from "../state/revisions.js";
import { href, useQuery } from "../state/route.js";
import { onsetOf } from "../timeline/model.js";
import { Timeline } from "../timeline/timeline.js";
import { duration, ms } from "../text/time.js";
import { plural } from "../text/words.js";
import { useNow } from "../lib/clock.js";
import { Actions } from "./job_actions.js";
import { Evidence } from "./job_evidence.js";
import { Coverage, Revisions } from "./job_side.js";
import { Verdict } from "./job_verdict.js";

export function Job({ id, attempt }) {
  const latest = useResource(attempt === null ? `/v1/jobs?limit=200` : null);
  if (attempt === null) {
    const found = latest.data?.items.filter((j) => j.job_id === id);
    if (found?.length) return html`<${Attempt} id=${id} attempt=${Math.max(...found.map((j) => j.attempt))} />`;
    return html`
      <h1 tabindex="-1">Job <span class="mono">${id}</span></h1>
      <div class="panel">
        ${latest.error
          ? html`<${Failed} error=${latest.error} />`
          : latest.loading
            ? html`<${Waiting} />`
            : html`<${Empty} title="It is not among the latest jobs">Name the attempt in the address: <code>/jobs/${id}/1</code><//>`}
      </div>`;
  }
  return html`<${Attempt} id=${id} attempt=${attempt} />`;
}

function Attempt({ id, attempt }) {
  const base = path`/v1/jobs/${id}/attempts/${attempt}`;
  const mine = (topic, event) => {
    if (topic === "signals" || topic === "health") return nodes.has(event.partitionkey);
    return event.data.job_id === id;
  };
  const job = useResource(base, mine);
  const attribution = useResource(job.data?.verdict ? `${base}/attribution` : null, mine); // 404 before the first one
  const timeline = useResource(`${base}/timeline`, mine);
  const nodes = useMemo(() => new Set(job.data?.job?.nodes ?? []), [job.data]);
  const [chosen] = useQuery("revision");
  const revisions = useRevisions(id, attempt, attribution.data);
  const event = revisions.find((r) => String(r.data.revision) === chosen) ?? revisions.at(-1) ?? null;
  const verdict = event?.data ?? null;
  const onset = onsetOf(timeline.data, verdict);

  if (!job.data) {
    return html`
      <h1 tabindex="-1">Job <span class="mono">${id}</span></h1>
      <div class="panel">
        ${job.error ? html`<${Failed} error=${job.error} what=${`Attempt ${attempt} of job ${id}`} />` : html`<${Waiting} lines=${8} />`}
      </div>`;
  }
  return html`
    <${Title} job=${job.data} id=${id} attempt=${attempt} />
    <${Stale} error=${job.error ?? timeline.error} />
    <div class="stack">
      <${Verdict} event=${event} onset=${onset} latest=${revisions.at(-1)} timeline=${timeline.data} job=${job.data} waiting=${!event && attribution.loading && Boolean(job.data.verdict)} />
      <${Panel} id="timeline" title="Timeline" about=${timeline.data ? plural(timeline.data.lanes.length, "node") : ""}>
        ${timeline.data
          ? html`<${Timeline} key=${base} timeline=${timeline.data} verdict=${verdict} />`
          : timeline.error ? html`<${Failed} error=${timeline.error} />` : html`<${Waiting} />`}
      <//>
      <div class="split even">
        <div class="stack">
          <${Evidence} verdict=${verdict} origin=${onset} />
          <${Coverage} verdict=${verdict} />
        </div>
        <div class="stack">
          <${Actions} actions=${timeline.data?.actions} origin=${onset} />
          <${Revisions} revisions=${revisions} shown=${event} base=${href.job(id, attempt)} />
        </div>
      </div>
    </div>
  `;
}

function Title({ job, id, attempt }) {
  const now = useNow();
  const from = ms(job.started);
  const length = from === null ? null : Math.round(((ms(job.ended) ?? now) - from) / 1000);
  const nccl = job.job?.nccl;
  const others = (job.attempts ?? []).filter((a) => a !== attempt);
  return html`
    <div class="title">
      <h1 tabindex="-1">Job <span class="mono">${id}</span>${job.job?.name && html` <span class="muted">${job.job.name}</span>`}</h1>
      <div class="facts">
        <span><${JobState} state=${job.state} /></span>
        <span>attempt <b>${attempt}</b>${others.length > 0 && html`, others: ${others.map((a) => html` <a class="link" href=${href.job(id, a)}>${a}</a>`)}`}</span>
        <span><b>${plural(job.nodes, "node")}</b></span>
        <span>started <b><${Time} at=${job.started} /></b></span>
        ${length !== null && html`<span>${job.ended ? "ran" : "running for"} <b>${duration(length)}</b></span>`}
        ${nccl?.version && html`<span>NCCL <b>${nccl.version}</b></span>`}
        ${job.budget_s != null && html`<span>survives a dead path for <b>${duration(job.budget_s)}</b></span>`}
        ${job.scheduler && html`<span>${job.scheduler}</span>`}
      </div>
    </div>
  `;
}
