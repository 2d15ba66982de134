// How long each port was down: in each window against its threshold, and every outage as a point.
import { html, useMemo } from "../lib/ui.js";
import { Icon } from "../parts/icons.js";
import { Severity, Time } from "../parts/marks.js";
import { Empty } from "../parts/notices.js";
import { Panel } from "../parts/panel.js";
import { href } from "../state/route.js";
import { entity } from "../text/entity.js";
import { duration } from "../text/time.js";
import { plural } from "../text/words.js";
import { OutageChart } from "./outage_chart.js";

const WINDOWS = { 60: "1 min", 600: "10 min", 3600: "1 h", 86400: "24 h" };
const LISTED = 6;

export function Ports({ ports }) {
  const outages = useMemo(() => ports.flatMap((p) => p.outages.map((o) => ({ ...o, entity: p.entity }))), [ports]);
  return html`
    <${Panel} id="ports" title="Ports" about=${ports.length ? `${plural(outages.length, "outage")} on ${plural(ports.length, "port")}` : ""}>
      ${ports.length
        ? html`
          <div class="ports">
            <div class="port-list">${ports.map((p) => html`<${Port} key=${p.entity} port=${p} />`)}</div>
            <${OutageChart} outages=${outages} />
          </div>`
        : html`<${Empty} title="No outage is known">Every time a port was not ACTIVE would stand here, with its exact length, against windows of 1 min, 10 min, 1 h and 24 h.<//>`}
    <//>
  `;
}

function Port({ port }) {
  return html`
    <section class="port" aria-label=${entity(port.entity)}>
      <h3 class="mono">${entity(port.entity)}</h3>
      <dl class="windows">${port.windows.map((w) => html`<${Window} w=${w} />`)}</dl>
      <ul class="outages">
        ${port.outages.slice(0, LISTED).map((o) => html`<${Outage} key=${o.id} o=${o} />`)}
        ${port.outages.length > LISTED && html`<li class="muted">and ${port.outages.length - LISTED} more</li>`}
      </ul>
    </section>
  `;
}

const Outage = ({ o }) => html`
  <li>
    <a href=${href.event(o.id)}><${Time} at=${o.since} decimals=${3} /></a>${" "}
    <b>${o.length_s == null ? "length unknown" : duration(o.length_s)}</b>${" "}
    ${o.until == null && html`<${Severity} severity="error">still down<//> `}
    ${["budget", "lethal"].includes(o.level) && html`<${Severity} severity="fatal">past NCCL's budget<//>`}
  </li>
`;

/** A bar against its threshold: the mark stands at two thirds, so that a bar may pass it. */
function Window({ w }) {
  const { down_s: down, threshold, window_s: window } = w;
  const scale = threshold ? threshold * 1.5 : window;
  const part = Math.min(1, down / scale);
  const over = threshold != null && down >= threshold;
  const limit = threshold ? `, threshold ${duration(threshold)}${over ? ", passed" : ""}` : "";
  const words = `${duration(down)} down in ${WINDOWS[window] ?? duration(window)}${limit}`;
  return html`
    <div data-over=${over}>
      <dt>${WINDOWS[window] ?? duration(window)}</dt>
      <dd>
        <span class="gauge" role="img" aria-label=${words}>
          <i style=${{ width: `${(part * 100).toFixed(2)}%` }} />
          ${threshold ? html`<u style=${{ left: "66.67%" }} />` : null}
        </span>
        <span class="figure">
          <b>${duration(down)}</b>${threshold ? html` <span class="muted">of ${duration(threshold)}</span> ` : ""}
          ${over && html`<span class="sev" data-severity="error"><${Icon} name="error" label="threshold passed" /></span>`}
        </span>
      </dd>
    </div>
  `;
}
