// The incident over time: a lane a node, with the lines that decide crossing all of them.
import { html, useCallback, useLayoutEffect, useMemo, useRef, useState } from "../lib/ui.js";
import { useNow } from "../lib/clock.js";
import { Icon } from "../parts/icons.js";
import { clock, offset, ticks } from "../text/time.js";
import { plural } from "../text/words.js";
import { useGestures } from "./gestures.js";
import { Inspector } from "./inspector.js";
import { Lane } from "./lane.js";
import { Minimap } from "./minimap.js";
import { clustered, flagRows, model } from "./model.js";
import { moved, zoomed } from "./window.js";

const MOST_LANES = 60;
const TICK_PX = 110;

export function Timeline({ timeline, verdict }) {
  const running = !timeline.ended;
  const now = useNow();
  const drawn = useMemo(() => model(timeline, verdict, running ? now : 0), [timeline, verdict, running ? now : 0]);
  const [chosen, setChosen] = useState(null); // null: follow the incident
  const [item, setItem] = useState(null);
  const [quiet, setQuiet] = useState(false);
  const [width, setWidth] = useState(800);
  const track = useRef(null);
  const root = useRef(null);

  const window = chosen ?? drawn.focus;
  const current = useRef(window);
  current.current = window;
  const change = useCallback((f) => setChosen(f(current.current)), []);
  useGestures(track, drawn.whole, change);
  useLayoutEffect(() => {
    const observer = new ResizeObserver(() => track.current && setWidth(track.current.clientWidth || 800));
    observer.observe(track.current);
    return () => observer.disconnect();
  }, []);

  const blamed = useMemo(() => new Set((verdict?.culprits ?? []).map((c) => c.node)), [verdict]);
  const ordered = useMemo(() => inOrder(drawn.lanes, blamed), [drawn, blamed]);
  const loud = ordered.filter((lane) => !lane.quiet);
  const silent = ordered.length - loud.length;
  const lanes = (quiet || !loud.length ? ordered : loud).slice(0, MOST_LANES);
  const x = (t) => ((t - window[0]) / (window[1] - window[0])) * width;
  const { step, at } = ticks(window[0], window[1], width / TICK_PX, drawn.origin);
  const flags = flagRows(drawn.lines.filter((l) => l.at >= window[0] && l.at <= window[1]), x, width);
  const flagHeight = (Math.max(-1, ...flags.map((f) => f.row)) + 1) * 22;

  let index = 0;
  const starts = lanes.map((lane) => {
    const from = index;
    index += lane.rows.reduce((n, row) => n + row.spans.length, 0) + clustered(lane.marks, window, width).length;
    return from;
  });

  const keys = (event) => {
    const zoom = { "+": 0.6, "=": 0.6, "-": 1 / 0.6, "_": 1 / 0.6 }[event.key];
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (zoom) change((w) => zoomed(w, zoom, item ? (item.at ?? (item.a + item.b) / 2) : null, drawn.whole));
    else if (event.key === "0") setChosen(null);
    else if (event.shiftKey && event.key === "ArrowLeft") change((w) => moved(w, -0.25, drawn.whole));
    else if (event.shiftKey && event.key === "ArrowRight") change((w) => moved(w, 0.25, drawn.whole));
    else if (event.key.startsWith("Arrow")) walk(event.key);
    else return;
    event.preventDefault();
  };
  /** Left and right walk in time within a lane, up and down to the lane above and below. */
  const walk = (key) => {
    const items = [...root.current.querySelectorAll("[data-index]")];
    const here = document.activeElement;
    const lanesNow = [...root.current.querySelectorAll(".lane")];
    const own = here?.closest?.(".lane");
    const left = (element) => element.getBoundingClientRect().left;
    let target;
    if (!own || !items.includes(here)) target = items[0];
    else if (key === "ArrowLeft" || key === "ArrowRight") {
      const inLane = [...own.querySelectorAll("[data-index]")].sort((a, b) => left(a) - left(b));
      target = inLane[inLane.indexOf(here) + (key === "ArrowRight" ? 1 : -1)];
    } else {
      const direction = key === "ArrowDown" ? 1 : -1;
      for (let i = lanesNow.indexOf(own) + direction; lanesNow[i] && !target; i += direction) {
        target = [...lanesNow[i].querySelectorAll("[data-index]")].sort((a, b) => Math.abs(left(a) - left(here)) - Math.abs(left(b) - left(here)))[0];
      }
    }
    target?.focus();
    target?.scrollIntoView({ block: "nearest", inline: "nearest" });
  };

  return html`
    <div class="timeline" ref=${root} onKeyDown=${keys}>
      <div class="controls">
        <${Minimap} lanes=${drawn.lanes} whole=${drawn.whole} window=${window} change=${change} />
        <div class="buttons">
          <button class="tool" aria-label="Zoom in" onClick=${() => change((w) => zoomed(w, 0.6, null, drawn.whole))}>+</button>
          <button class="tool" aria-label="Zoom out" onClick=${() => change((w) => zoomed(w, 1 / 0.6, null, drawn.whole))}>−</button>
          <button class="chip" aria-pressed=${chosen === null} onClick=${() => setChosen(null)}>Incident</button>
          <button class="chip" aria-pressed=${window[0] === drawn.whole[0] && window[1] === drawn.whole[1]} onClick=${() => setChosen(drawn.whole)}>Whole attempt</button>
        </div>
      </div>
      <div class="field-of" tabindex="0" role="group" aria-label="Timeline. Arrow keys walk through what happened, plus and minus zoom.">
        <div class="axis">
          <span class="who small muted">offset from ${drawn.lines.some((l) => l.kind === "onset") ? "the onset" : "the start"}, UTC</span>
          <div class="scale" ref=${track}>
            <div class="flags" style=${{ height: `${flagHeight}px` }}>
              ${flags.map((f) => html`<${Flag} key=${f.kind + f.at} flag=${f} x=${x(f.at)} />`)}
            </div>
            <div class="ticks">${at.map((t) => html`<span key=${t} style=${{ left: `${x(t)}px` }}><b>${offset((t - drawn.origin) / 1000, step)}</b><i>${clock(t, step < 1 ? 3 : 0)}</i></span>`)}</div>
          </div>
        </div>
        <div class="lanes">
          <div class="lines" aria-hidden="true">
            ${at.map((t) => html`<i key=${t} class="grid" style=${{ left: `${x(t)}px` }} />`)}
            ${drawn.lines.map((l) => html`<${Line} key=${l.kind + l.at} line=${l} window=${window} x=${x} width=${width} />`)}
          </div>
          ${lanes.map((lane, i) => html`<${Lane} key=${lane.node} lane=${lane} window=${window} width=${width} origin=${drawn.origin} budget=${drawn.budget} blamed=${blamed.has(lane.node)} point=${setItem} from=${starts[i]} />`)}
        </div>
      </div>
      <div class="under">
        <${Inspector} item=${item} origin=${drawn.origin} budget=${drawn.budget} />
        ${silent > 0 && loud.length > 0 && html`<button class="chip" aria-pressed=${quiet} onClick=${() => setQuiet(!quiet)}>${quiet ? "Hide" : "Show"} ${plural(silent, "quiet node")}</button>`}
        ${(quiet ? ordered : loud).length > MOST_LANES && html`<span class="muted small">${(quiet ? ordered : loud).length - MOST_LANES} more lanes are not drawn</span>`}
      </div>
    </div>
  `;
}

/** Blamed nodes first, then by when something was first seen there, then by name. */
function inOrder(lanes, blamed) {
  const first = (lane) => Math.min(Infinity, ...lane.rows.flatMap((r) => r.spans.map((s) => s.a)), ...lane.marks.map((m) => m.at));
  return lanes
    .map((lane) => ({ lane, weight: blamed.has(lane.node) ? 0 : 1, at: first(lane) }))
    .sort((a, b) => a.weight - b.weight || a.at - b.at || (a.lane.node < b.lane.node ? -1 : 1))
    .map(({ lane }) => lane);
}

const ICONS = { action: "action", budget: "fatal", onset: "signal", edge: "unknown" };

function Flag({ flag, x }) {
  const style = { left: `${x}px`, top: `${flag.row * 22}px` };
  const inner = html`<${Icon} name=${ICONS[flag.kind]} />${flag.text}${flag.held ? " (held)" : ""}`;
  const props = { class: "flag", style, "data-kind": flag.kind, "data-turn": flag.turn };
  return flag.href ? html`<a ...${props} href=${flag.href}>${inner}</a>` : html`<span ...${props}>${inner}</span>`;
}

function Line({ line, window, x, width }) {
  const shown = line.at >= window[0] && line.at <= window[1];
  const from = Math.max(0, x(line.at));
  const to = Math.min(width, x(line.until ?? line.at));
  return html`
    ${to > from && html`<i class="band" data-kind=${line.kind} style=${{ left: `${from}px`, width: `${to - from}px` }} />`}
    ${shown && html`<i class="line" data-kind=${line.kind} style=${{ left: `${from}px` }} />`}
  `;
}
