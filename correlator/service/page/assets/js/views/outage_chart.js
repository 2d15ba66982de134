// Every outage as a point: when it began, and how long it lasted. Lengths span milliseconds to hours, so the
// scale is logarithmic.
import uPlot from "../../vendor/uplot.js";
import { useObservable } from "../lib/observable.js";
import { html, useEffect, useMemo, useRef } from "../lib/ui.js";
import { theme } from "../state/theme.js";
import { entity } from "../text/entity.js";
import { clock, day, duration, ms } from "../text/time.js";

const HEIGHT = 200;
const SHAPES = 5;

/** Series per port over one time axis, as uPlot wants them: [times, lengths, lengths, ...]. Pure. */
export function aligned(outages) {
  const known = outages.filter((o) => o.length_s > 0).map((o) => ({ at: ms(o.since) / 1000, ...o }));
  known.sort((a, b) => a.at - b.at);
  const ports = [...new Set(known.map((o) => o.entity))].sort();
  const columns = ports.map((port) => known.map((o) => (o.entity === port ? o.length_s : null)));
  return { ports, data: [known.map((o) => o.at), ...columns] };
}

export function OutageChart({ outages }) {
  const box = useRef(null);
  const now = useObservable(theme);
  const { ports, data } = useMemo(() => aligned(outages), [outages]);
  const budget = outages.find((o) => o.threshold != null)?.threshold;
  const longest = Math.max(0, ...outages.map((o) => o.length_s ?? 0));
  useEffect(() => {
    if (!data[0].length) return undefined;
    const chart = new uPlot(options(box.current, ports, budget), data, box.current);
    const resize = new ResizeObserver(() => chart.setSize({ width: box.current.clientWidth, height: HEIGHT }));
    resize.observe(box.current);
    const scheme = matchMedia("(prefers-color-scheme: dark)");
    const repaint = () => chart.redraw();
    scheme.addEventListener("change", repaint);
    return () => {
      scheme.removeEventListener("change", repaint);
      resize.disconnect();
      chart.destroy();
    };
  }, [data, budget, now]);
  if (!data[0].length) return null;
  return html`
    <figure class="chart">
      <figcaption class="small muted">Outages by length, logarithmic. ${ports.length > 1 ? "A shape a port." : ""} The longest: ${duration(longest)}.</figcaption>
      <div ref=${box} aria-hidden="true" />
      ${ports.length > 1 && html`<ul class="legend small">${ports.map((p, i) => html`<li><svg viewBox="-6 -6 12 12" class="icon" aria-hidden="true"><path d=${outline(i, 4.5)} fill="currentColor" /></svg>${entity(p)}</li>`)}</ul>`}
    </figure>
  `;
}

/** A colour of the palette as the canvas wants it: custom properties are resolved by asking an element. */
function colour(element, name) {
  const probe = document.createElement("i");
  probe.style.color = `var(${name})`;
  element.append(probe);
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color;
}

const corners = (n, r, turn = 0) => Array.from({ length: n }, (_, i) => [r * Math.sin(turn + (i * 2 * Math.PI) / n), -r * Math.cos(turn + (i * 2 * Math.PI) / n)]);

function points(shape, r) {
  switch (shape % SHAPES) {
    case 0: return corners(16, r);
    case 1: return corners(4, r * 1.25);
    case 2: return corners(3, r * 1.3);
    case 3: return corners(4, r * 1.3, Math.PI / 4);
    default: return corners(3, r * 1.3, Math.PI);
  }
}

/** The first and the last time with some air, at least a minute of it. */
export function around(times) {
  const [first, last] = [times[0], times.at(-1)];
  const air = Math.max(60, (last - first) * 0.06);
  return [first - air, last + air];
}

function decades(from, to) {
  const at = [];
  for (let i = Math.ceil(Math.log10(from)); 10 ** i <= to; i++) at.push(10 ** i);
  return at;
}

const outline = (shape, r) => `M${points(shape, r).map(([x, y]) => `${x.toFixed(2)} ${y.toFixed(2)}`).join("L")}Z`;

/** Where NCCL gives up, across the chart. */
function guide(u, budget, paint) {
  const { ctx, bbox } = u;
  const y = u.valToPos(budget, "y", true);
  ctx.strokeStyle = ctx.fillStyle = paint;
  ctx.lineWidth = devicePixelRatio;
  ctx.setLineDash([5 * devicePixelRatio, 4 * devicePixelRatio]);
  ctx.beginPath();
  ctx.moveTo(bbox.left, y);
  ctx.lineTo(bbox.left + bbox.width, y);
  ctx.stroke();
  ctx.font = `${11 * devicePixelRatio}px Inter Variable, system-ui, sans-serif`;
  ctx.textAlign = "right";
  ctx.fillText(`NCCL gives up, ${duration(budget)}`, bbox.left + bbox.width - 4 * devicePixelRatio, y + 13 * devicePixelRatio);
}

function options(element, ports, budget) {
  const paint = (name) => () => colour(element, name);
  const axis = { stroke: paint("--muted"), grid: { stroke: paint("--line"), width: 1 }, ticks: { show: false }, font: "11px Inter Variable, system-ui, sans-serif" };
  return {
    width: element.clientWidth || 400,
    height: HEIGHT,
    tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
    legend: { show: false },
    cursor: { show: false },
    scales: {
      // the data's own ends: uPlot widens a single point to years
      x: { time: true, range: (u) => around(u.data[0]) },
      y: { distr: 3, range: (_, a, b) => [Math.min(a, 0.5) / 2, Math.max(b, 20) * 2] },
    },
    axes: [
      { ...axis, size: 30, values: (_, at) => at.map((s) => (s % 86_400 === 0 ? day(s * 1000).slice(5) : clock(s * 1000).slice(0, at[1] - at[0] < 60 ? 8 : 5))), space: 70 },
      { ...axis, size: 62, splits: (_u, _i, from, to) => decades(from, to), values: (_, at) => at.map((s) => (s == null ? "" : duration(s))) },
    ],
    series: [
      {},
      ...ports.map((port) => ({ label: port, paths: () => null, points: { show: false } })), // drawn below, a shape a port
    ],
    hooks: {
      draw: [
        (u) => {
          const { ctx } = u;
          ctx.save();
          if (budget) guide(u, budget, colour(element, "--fatal"));
          ctx.fillStyle = colour(element, "--error");
          for (let s = 1; s < u.data.length; s++) {
            for (let i = 0; i < u.data[0].length; i++) {
              const length = u.data[s][i];
              if (length == null) continue;
              const x = u.valToPos(u.data[0][i], "x", true);
              const y = u.valToPos(length, "y", true);
              ctx.beginPath();
              points(s - 1, 4.5 * devicePixelRatio).forEach(([dx, dy], k) => (k ? ctx.lineTo(x + dx, y + dy) : ctx.moveTo(x + dx, y + dy)));
              ctx.fill();
            }
          }
          ctx.restore();
        },
      ],
    },
  };
}
