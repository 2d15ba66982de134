// Every attempt that the store keeps, a page at a time.
import { html, useState } from "../lib/ui.js";
import { get } from "../net/api.js";
import { Empty, Failed, Waiting } from "../parts/notices.js";
import { Panel } from "../parts/panel.js";
import { useResource } from "../state/resource.js";
import { JobsTable } from "./jobs_table.js";

const LIMIT = 50;
const concerns = (topic) => ["attributions", "actions", "jobs"].includes(topic);

export function Jobs() {
  const first = useResource(`/v1/jobs?limit=${LIMIT}`, concerns);
  const [older, setOlder] = useState({ items: [], next: null, started: false, error: null });
  const next = older.started ? older.next : first.data?.next;
  const more = async () => {
    try {
      const page = await get(`/v1/jobs?limit=${LIMIT}&cursor=${encodeURIComponent(next)}`);
      setOlder((o) => ({ items: [...o.items, ...page.items], next: page.next, started: true, error: null }));
    } catch (error) {
      setOlder((o) => ({ ...o, error }));
    }
  };
  const seen = new Set();
  const items = [...(first.data?.items ?? []), ...older.items].filter((j) => {
    const key = `${j.job_id}/${j.attempt}`;
    return !seen.has(key) && seen.add(key);
  });
  return html`
    <div class="title"><h1 tabindex="-1">Jobs</h1></div>
    <${Panel} id="all" title="Attempts" about="latest first">
      ${first.error && !first.data
        ? html`<${Failed} error=${first.error} />`
        : !first.data
          ? html`<${Waiting} />`
          : items.length
            ? html`<div class="scrollx"><${JobsTable} jobs=${items} /></div>`
            : html`<${Empty} title="No jobs yet">They come from the scheduler: <code>faultwire job watch</code> reads Slurm or Kubernetes.<//>`}
      ${older.error && html`<${Failed} error=${older.error} />`}
      ${next && html`<div class="body"><button class="button" onClick=${more}>Older ones</button></div>`}
    <//>
  `;
}
