// The whole attempt in one strip, and which part of it is looked at.
import { html, useMemo } from "../lib/ui.js";
import { bounded } from "./window.js";

const BINS = 240;
const TONES = ["fatal", "error", "warning", "info"];

export function Minimap({ lanes, whole, window, change }) {
  const bins = useMemo(() => {
    const found = new Map();
    const put = (i, tone) => {
      if (!found.has(i) || TONES.indexOf(tone) < TONES.indexOf(found.get(i))) found.set(i, tone);
    };
    const bin = (t) => Math.max(0, Math.min(BINS - 1, Math.floor(((t - whole[0]) / (whole[1] - whole[0])) * BINS)));
    for (const lane of lanes) {
      for (const mark of lane.marks) put(bin(mark.at), mark.severity);
      for (const row of lane.rows) for (const span of row.spans) for (let i = bin(span.a); i <= bin(span.b); i++) put(i, span.severity);
    }
    return [...found];
  }, [lanes, whole[0], whole[1]]);
  const width = whole[1] - whole[0];
  const move = (event) => {
    const box = event.currentTarget.getBoundingClientRect();
    const at = whole[0] + ((event.clientX - box.left) / box.width) * width;
    change((w) => bounded([at - (w[1] - w[0]) / 2, at + (w[1] - w[0]) / 2], whole));
  };
  const drag = (event) => event.buttons === 1 && move(event);
  const left = ((window[0] - whole[0]) / width) * 100;
  return html`
    <div class="minimap" aria-hidden="true" onPointerDown=${move} onPointerMove=${drag}>
      ${bins.map(([i, tone]) => html`<i style=${{ left: `${(i / BINS) * 100}%` }} data-tone=${tone} />`)}
      <b style=${{ left: `${left}%`, width: `${((window[1] - window[0]) / width) * 100}%` }} />
    </div>
  `;
}
