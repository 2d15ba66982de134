// Which view the address means; the focus and the title follow it.
import { html, useEffect, useRef } from "./lib/ui.js";
import { Header } from "./parts/header.js";
import { Empty } from "./parts/notices.js";
import { match, useRoute } from "./state/route.js";
import { Event } from "./views/event.js";
import { Fleet } from "./views/fleet.js";
import { Job } from "./views/job.js";
import { Jobs } from "./views/jobs.js";
import { Node } from "./views/node.js";

const TITLES = {
  fleet: () => "Fleet",
  jobs: () => "Jobs",
  job: (p) => `Job ${p.id}`,
  node: (p) => p.node,
  event: (p) => `Event ${p.id.slice(0, 8)}`,
  unknown: () => "Not found",
};

function view({ view: name, params }) {
  switch (name) {
    case "fleet": return html`<${Fleet} />`;
    case "jobs": return html`<${Jobs} />`;
    case "job": return html`<${Job} key=${`${params.id} ${params.attempt}`} id=${params.id} attempt=${params.attempt} />`;
    case "node": return html`<${Node} key=${params.node} node=${params.node} />`;
    case "event": return html`<${Event} key=${params.id} id=${params.id} />`;
    default: return html`<h1 tabindex="-1">Not found</h1><div class="panel"><${Empty} title="There is no such view">Try the <a class="link" href="/">fleet</a> or the <a class="link" href="/jobs">jobs</a>.<//></div>`;
  }
}

export function App() {
  const { path } = useRoute();
  const found = match(path);
  const main = useRef(null);
  const first = useRef(true);
  useEffect(() => {
    document.title = `${TITLES[found.view](found.params)} · Faultwire`;
    if (first.current) {
      first.current = false;
      return;
    }
    scrollTo(0, 0);
    main.current?.focus({ preventScroll: true });
  }, [path]);
  return html`
    <a class="skip" href="#main" onClick=${(e) => { e.preventDefault(); main.current?.focus(); }}>Skip to the content</a>
    <${Header} />
    <main id="main" ref=${main} tabindex="-1" data-view=${found.view}>${view(found)}</main>
  `;
}
