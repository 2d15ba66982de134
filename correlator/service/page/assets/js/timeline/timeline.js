// The incident over time: a lane a node, with the lines that decide crossing all of them.
import { html, useCallback, useLayoutEffect, useMemo, useRef, useState } from "../lib/ui.js";
import { useNow } from "../lib/clock.js";
import { clock, offset, ticks } from "../text/time.js";
import { isOpen } from "../text/verdict.js";
import { plural } from "../text/words.js";
import { useGestures } from "./gestures.js";
import { Inspector } from "./inspector.js";
import { handleKey, useKeptFocus } from "./keys.js";
import { Lane } from "./lane.js";
import { Flags, Line } from "./lines.js";
import { Minimap } from "./minimap.js";
import { flagRows, inOrder, model, within } from "./model.js";
import { zoomed } from "./window.js";

const MOST_LANES = 60;
const TICK_PX = 90;
const EDGE_PX = 26; // a label nearer to the edge would be cut
const CLOSER = 0.6;
const ABOUT = "Timeline. Arrow keys walk through what happened, plus and minus zoom.";

export function Timeline({ timeline, verdict }) {
  const now = useNow();
  const present = timeline.ended ? 0 : now;
  const drawn = useMemo(() => model(timeline, verdict, present), [timeline, verdict, present]);
  const [chosen, setChosen] = useState(null); // null: follow the incident
  const [pointed, setPointed] = useState([]); // keys, so that what is said of them stays true
  const root = useRef(null);
  const track = useRef(null);
  const width = useWidth(track);
  useKeptFocus(root);

  const window = chosen ?? drawn.focus;
  const current = useRef(window);
  current.current = window;
  const change = useCallback((f) => setChosen(f(current.current)), []);
  const reset = () => setChosen(null);
  useGestures(track, drawn.whole, change);

  const x = (t) => ((t - window[0]) / (window[1] - window[0])) * width;
  const scale = ticks(window[0], window[1], width / TICK_PX, drawn.origin);
  const flags = flagRows(drawn.lines.filter((l) => l.at >= window[0] && l.at <= window[1]), x, width);
  const items = pointed.map((key) => drawn.items.get(key)).filter(Boolean);
  const around = items.length ? items[0].at ?? (items[0].a + items[0].b) / 2 : null;
  const keys = (event) => handleKey(event, { root: root.current, whole: drawn.whole, around, change, reset });
  const zero = drawn.lines.some((l) => l.kind === "onset") ? "the onset" : "the start";

  return html`
    <div class="timeline" ref=${root} onKeyDown=${keys}>
      <div class="controls">
        <${Minimap} lanes=${drawn.lanes} whole=${drawn.whole} window=${window} change=${change} />
        <${Buttons} chosen=${chosen} window=${window} whole=${drawn.whole} change=${change} reset=${reset} />
      </div>
      <div class="field-of" tabindex="0" role="group" aria-label=${ABOUT}>
        <div class="axis">
          <span class="who small muted">offset from ${zero}, UTC</span>
          <div class="scale" ref=${track}>
            <${Flags} flags=${flags} x=${x} />
            <${Ticks} scale=${scale} origin=${drawn.origin} x=${x} width=${width} />
          </div>
        </div>
        <${Lanes} drawn=${drawn} verdict=${verdict} window=${window} free=${chosen !== null} width=${width}
          point=${setPointed}>
          ${scale.at.map((t) => html`<i key=${t} class="grid" style=${{ left: `${x(t)}px` }} />`)}
          ${drawn.lines.map((l) => html`<${Line} key=${l.kind + l.at} line=${l} window=${window} x=${x} width=${width} />`)}
        <//>
      </div>
      <div class="under"><${Inspector} items=${items} origin=${drawn.origin} budget=${drawn.budget} /></div>
    </div>
  `;
}

function useWidth(element) {
  const [width, setWidth] = useState(800);
  useLayoutEffect(() => {
    const measure = () => setWidth(element.current?.clientWidth || 800);
    measure(); // before the first paint: lines stand in pixels, bars in percent
    const observer = new ResizeObserver(measure);
    observer.observe(element.current);
    return () => observer.disconnect();
  }, []);
  return width;
}

function Buttons({ chosen, window, whole, change, reset }) {
  const all = window[0] === whole[0] && window[1] === whole[1];
  const zoom = (factor) => () => change((w) => zoomed(w, factor, null, whole));
  return html`
    <div class="buttons">
      <button class="tool" aria-label="Zoom in" onClick=${zoom(CLOSER)}>+</button>
      <button class="tool" aria-label="Zoom out" onClick=${zoom(1 / CLOSER)}>−</button>
      <button class="chip" aria-pressed=${chosen === null} onClick=${reset}>Incident</button>
      <button class="chip" aria-pressed=${all} onClick=${() => change(() => whole)}>Whole attempt</button>
    </div>
  `;
}

function Ticks({ scale, origin, x, width }) {
  const inside = scale.at.filter((t) => x(t) > EDGE_PX && x(t) < width - EDGE_PX);
  return html`
    <div class="ticks">
      ${inside.map((t) => html`
        <span key=${t} style=${{ left: `${x(t)}px` }}>
          <b>${offset((t - origin) / 1000, scale.step)}</b><i>${clock(t, scale.step < 1 ? 3 : 0)}</i>
        </span>`)}
    </div>
  `;
}

/** Lanes where something of the incident is seen; the others on demand. */
function Lanes({ drawn, verdict, window, free, width, point, children }) {
  const [quiet, setQuiet] = useState(false);
  const blamed = useMemo(() => new Set((verdict?.culprits ?? []).map((c) => c.node)), [verdict]);
  const ordered = useMemo(() => inOrder(drawn.lanes, blamed), [drawn, blamed]);
  const loud = ordered.filter((lane) => !lane.quiet);
  const silent = loud.length ? ordered.length - loud.length : 0;
  const wanted = quiet || !silent ? ordered : loud;
  // the incident shows what belongs to it; whoever moves the window wants rows that stay where they are
  const lanes = wanted.slice(0, MOST_LANES).map((lane) => (free ? lane : within(lane, window)));
  const role = isOpen(verdict) ? "suspect" : "to blame";
  const more = wanted.length - lanes.length;
  return html`
    <div class="lanes">
      <div class="lines" aria-hidden="true">${children}</div>
      ${lanes.map((lane) => html`
        <${Lane} key=${lane.node} lane=${lane} window=${window} width=${width} origin=${drawn.origin}
          budget=${drawn.budget} blamed=${blamed.has(lane.node) ? role : null} point=${point} />`)}
    </div>
    ${(silent > 0 || more > 0) && html`
      <div class="rest">
        ${silent > 0 && html`
          <button class="chip" aria-pressed=${quiet} onClick=${() => setQuiet(!quiet)}>
            ${quiet ? "Hide" : "Show"} ${plural(silent, "quiet node")}
          </button>`}
        ${more > 0 && html`<span class="muted small">${plural(more, "more lane")} not drawn</span>`}
      </div>`}
  `;
}
