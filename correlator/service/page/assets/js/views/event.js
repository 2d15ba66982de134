// One event and what it rests on, as a tree down to the raw record, and what followed from it.
import { html } from "../lib/ui.js";
import { path } from "../net/api.js";
import { Icon } from "../parts/icons.js";
import { Time } from "../parts/marks.js";
import { Failed, Stale, Waiting } from "../parts/notices.js";
import { Panel } from "../parts/panel.js";
import { useResource } from "../state/resource.js";
import { href } from "../state/route.js";
import { iconOf, isRaw, kindName } from "../text/kinds.js";
import { asideOf, titleOf } from "../text/titles.js";
import { plural } from "../text/words.js";
import { Tree } from "./event_tree.js";

export function Event({ id }) {
  const { data, error } = useResource(path`/v1/events/${id}`, (topic, event) => event.data && JSON.stringify(event.data).includes(id));
  if (!data) {
    return html`<h1 tabindex="-1">Event</h1><div class="panel">${error ? html`<${Failed} error=${error} what=${`Event ${id}`} />` : html`<${Waiting} />`}</div>`;
  }
  const { event } = data;
  const aside = asideOf(data);
  const job = event.data.job_id ?? event.jobid;
  const attempt = event.data.attempt ?? event.attempt;
  return html`
    <div class="title">
      <h1 tabindex="-1" class=${isRaw(data.kind) ? "long mono" : "long"}>${titleOf(data)}</h1>
      <div class="facts">
        <span>${kindName(data.kind)}</span>
        <span><b><${Time} at=${data.time} decimals=${6} date /></b> UTC</span>
        ${data.node && html`<span>node <a class="link" href=${href.node(data.node)}>${data.node}</a></span>`}
        ${job && html`<span>job <a class="link" href=${href.job(job, attempt)}>${job}/${attempt ?? "?"}</a></span>`}
        <span>topic <b class="mono">${data.topic}</b></span>
        ${data.note && html`<span class="tag" data-tone="drill">${data.note}</span>`}
      </div>
      ${aside && html`<p class="aside">${aside}</p>`}
    </div>
    <${Stale} error=${error} />
    <div class="split even">
      <${Panel} id="chain" title="Evidence chain" about=${data.causes.length ? "what it rests on, down to the raw record" : "a raw record: nothing lies below it"}>
        <${Tree} root=${data} />
      <//>
      <div class="stack">
        <${Panel} id="effects" title="What followed" about=${data.effects.length ? plural(data.effects.length, "event") : "nothing names it as a cause"}>
          ${data.effects.length > 0 && html`<ul class="feed">${data.effects.map((e) => html`
            <li key=${e.id}><a href=${href.event(e.id)}>
              <span class="sev" data-severity="info"><${Icon} name=${iconOf(e)} /></span>
              <span class="what">${e.title}</span>
              <span class="when"><${Time} at=${e.time} decimals=${1} /></span>
              <span class="about">${kindName(e.kind)}</span>
            </a></li>`)}
          </ul>`}
        <//>
        <${Panel} id="raw" title="As it was written" tools=${html`<a class="link small" href=${path`/v1/events/${id}`} target="_blank" rel="noreferrer">JSON with its chain</a>`}>
          <pre class="mono small source" tabindex="0">${JSON.stringify(event, null, 2)}</pre>
        <//>
      </div>
    </div>
  `;
}
