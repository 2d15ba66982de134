// How a node came to its state, and what was found on it.
import { html } from "../lib/ui.js";
import { Severity, State, Time, Drill } from "../parts/marks.js";
import { Empty } from "../parts/notices.js";
import { Panel } from "../parts/panel.js";
import { href } from "../state/route.js";
import { entity } from "../text/entity.js";
import { duration, ms } from "../text/time.js";
import { list, signalName } from "../text/words.js";
import { useNow } from "../lib/clock.js";

const MOST = 20;

/** Each state with how long it lasted; the widths of the strip are times, at least a sliver. */
function stretches(transitions, now) {
  const rising = [...transitions].reverse();
  return rising.map((event, i) => ({ state: event.data.state, from: ms(event.data.since), to: i + 1 < rising.length ? ms(rising[i + 1].data.since) : now }));
}

export function Health({ transitions }) {
  const now = useNow();
  const strip = stretches(transitions, now);
  return html`
    <${Panel} id="health" title="Health" about=${transitions.length ? "latest first" : ""}>
      ${transitions.length
        ? html`
          <div class="strip" aria-hidden="true">${strip.map((s) => html`<i data-state=${s.state} style=${{ flexGrow: Math.max(0.001, s.to - s.from) }} title=${`${s.state}, ${duration((s.to - s.from) / 1000)}`} />`)}</div>
          <ol class="transitions">${transitions.slice(0, MOST).map((event) => html`
            <li key=${event.id}><a href=${href.event(event.id)}><${State} state=${event.data.state} /></a>
              <span class="muted">${why(event.data)}</span>
              <span class="muted small"><${Time} at=${event.time} decimals=${1} /></span></li>`)}
          </ol>`
        : html`<${Empty} title="Never in trouble">A change of its health would be told here, with the signals that caused it.<//>`}
    <//>
  `;
}

function why({ reasons, operator }) {
  if (operator) return `${operator.who ?? "an operator"}: ${operator.why ?? "no reason given"}`;
  return list([...new Set(reasons.map((r) => `${signalName(r.signal)} on ${entity(r.entity)}`))], 2);
}

export const Findings = ({ marks }) => html`
  <${Panel} id="findings" title="Findings" about="what kernel and checks said">
    ${marks.length
      ? html`<ol class="findings">${marks.slice(0, MOST).map((m) => html`
          <li key=${m.id}><a href=${href.event(m.id)}><${Severity} severity=${m.severity}><span class="mono">${m.kind}</span><//></a> <span class="mono small text">${m.text}</span>
            ${m.userspace && html`<span class="tag" data-tone="drill">written by a program, not the kernel</span>`} <${Drill} drill=${m.drill} />
            <span class="muted small"><${Time} at=${m.time} decimals=${3} /></span></li>`)}</ol>`
      : html`<${Empty} title="Nothing was said">XIDs, PCIe errors, kernel failures and failed checks stand here as they were written.<//>`}
  <//>
`;
