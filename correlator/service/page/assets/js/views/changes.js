// The list of what changed lately.
import { html, memo } from "../lib/ui.js";
import { useChanges } from "../state/changes.js";
import { Icon } from "../parts/icons.js";
import { Ago, Drill } from "../parts/marks.js";
import { Empty } from "../parts/notices.js";
import { Panel } from "../parts/panel.js";

const Entry = memo(({ entry }) => html`
  <li class=${entry.fresh ? "fresh" : ""}>
    <a href=${entry.href}>
      <span class="sev" data-severity=${entry.tone}><${Icon} name=${entry.icon} /></span>
      <span class="what">${entry.what} <${Drill} drill=${entry.drill} /></span>
      <span class="when"><${Ago} at=${entry.time} suffix="" /></span>
      ${entry.about && html`<span class="about">${entry.about}</span>`}
    </a>
  </li>
`);

export function Changes({ nodes }) {
  const entries = useChanges(nodes);
  return html`
    <${Panel} id="changes" class="changes-panel" title="What changed" about=${entries.length ? "newest first, live" : ""}>
      <div class="scroll">
        ${entries.length === 0
          ? html`<${Empty} title="Quiet so far">Signals, health changes, verdicts and actions appear here the moment they are published.<//>`
          : html`<ol class="feed">${entries.map((entry) => html`<${Entry} key=${entry.key + entry.id} entry=${entry} />`)}</ol>`}
      </div>
    <//>
  `;
}
