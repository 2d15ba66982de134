// What crosses all lanes: the onset, the band where NCCL gives up, actions, the job's own start and end.
import { html } from "../lib/ui.js";
import { Icon } from "../parts/icons.js";

const FLAG_PX = 22;
const ICONS = { action: "action", budget: "fatal", onset: "signal", edge: "unknown" };

/** The names of the lines, above the axis. */
export function Flags({ flags, x }) {
  const rows = Math.max(-1, ...flags.map((f) => f.row)) + 1;
  return html`
    <div class="flags" style=${{ height: `${rows * FLAG_PX}px` }}>
      ${flags.map((flag) => html`<${Flag} key=${flag.kind + flag.at} flag=${flag} at=${x(flag.at)} />`)}
    </div>
  `;
}

function Flag({ flag, at }) {
  const inner = html`<${Icon} name=${ICONS[flag.kind]} />${flag.text}${flag.held ? " (held)" : ""}`;
  const props = {
    class: "flag",
    style: { left: `${at}px`, top: `${flag.row * FLAG_PX}px` },
    "data-kind": flag.kind,
    "data-turn": flag.turn,
  };
  return flag.href ? html`<a ...${props} href=${flag.href}>${inner}</a>` : html`<span ...${props}>${inner}</span>`;
}

export function Line({ line, window, x, width }) {
  const shown = line.at >= window[0] && line.at <= window[1];
  const from = Math.max(0, x(line.at));
  const to = Math.min(width, x(line.until ?? line.at));
  const band = { left: `${from}px`, width: `${to - from}px` };
  return html`
    ${to > from && html`<i class="band" data-kind=${line.kind} style=${band} />`}
    ${shown && html`<i class="line" data-kind=${line.kind} style=${{ left: `${from}px` }} />`}
  `;
}
