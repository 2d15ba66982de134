// Shapes that tell states and severities apart without colour. Drawn on a grid of 16.
import { html } from "../lib/ui.js";

const FILL = { fill: "currentColor" };
const STROKE = { fill: "none", stroke: "currentColor", "stroke-width": 2, "stroke-linecap": "round", "stroke-linejoin": "round" };

const SHAPES = {
  healthy: html`<circle cx="8" cy="8" r="4.5" ...${FILL} />`,
  suspect: html`<path d="M8 1.5 15 14H1Z" ...${FILL} />`,
  draining: html`<path d="M8 2v10M3.5 8 8 12.5 12.5 8" ...${STROKE} stroke-width="2.4" />`,
  quarantined: html`<path d="M3 3l10 10M13 3 3 13" ...${STROKE} stroke-width="3" />`,
  validating: html`<circle cx="8" cy="8" r="5.5" ...${STROKE} stroke-dasharray="3.2 2.6" stroke-width="2.4" />`,
  retired: html`<path d="M3 8h10" ...${STROKE} stroke-width="2.6" />`,
  unknown: html`<circle cx="8" cy="8" r="5" ...${STROKE} />`,

  info: html`<circle cx="8" cy="8" r="5.2" ...${STROKE} />`,
  warning: html`<path d="M8 2 14.5 13.5h-13Z" ...${STROKE} />`,
  error: html`<path d="M8 1 15 8 8 15 1 8Z" ...${FILL} />`,
  fatal: html`<path d="M5 1h6l4 4v6l-4 4H5l-4-4V5Z" ...${FILL} /><path d="m5.5 5.5 5 5m0-5-5 5" stroke="var(--surface)" stroke-width="2" />`,
  good: html`<path d="m2.5 8.5 3.8 3.8 7.2-8" ...${STROKE} stroke-width="2.4" />`,

  action: html`<path d="M9 1 3 9h4l-1 6 6-8H8Z" ...${FILL} />`,
  verdict: html`<path d="M2 14h12M4 14V6m4 8V2m4 12V9" ...${STROKE} stroke-width="2.2" />`,
  log: html`<path d="M2 4h12M2 8h8M2 12h10" ...${STROKE} stroke-width="1.8" />`,
  raw: html`<path d="M2 3l4 5-4 5M8 13h6" ...${STROKE} />`,
  signal: html`<path d="M1 8h3l2-5 3.5 10L12 8h3" ...${STROKE} />`,
  symptom: html`<circle cx="8" cy="8" r="3" ...${FILL} />`,
  light: html`<circle cx="8" cy="8" r="3.4" ...${STROKE} /><path d="M8 .8v1.6M8 13.6v1.6M.8 8h1.6M13.6 8h1.6M2.9 2.9 4 4M12 12l1.1 1.1M13.1 2.9 12 4M4 12l-1.1 1.1" ...${STROKE} stroke-width="1.6" />`,
  dark: html`<path d="M13.5 9.6A6 6 0 0 1 6.4 2.5a6 6 0 1 0 7.1 7.1Z" ...${STROKE} stroke-width="1.6" />`,
  system: html`<rect x="1.5" y="2.5" width="13" height="9" rx="1.4" ...${STROKE} stroke-width="1.6" /><path d="M5.5 14.2h5" ...${STROKE} stroke-width="1.6" />`,
  live: html`<circle cx="8" cy="8" r="6" ...${FILL} />`,
  broken: html`<path d="M8 2v6l4 3" ...${STROKE} /><circle cx="8" cy="8" r="6.4" ...${STROKE} stroke-dasharray="3 2.4" />`,
};

/** Decoration unless `label` gives it a name: whoever shows it stands a word beside it. */
export function Icon({ name, label }) {
  const shape = SHAPES[name] ?? SHAPES.unknown;
  return label
    ? html`<svg class="icon" viewBox="0 0 16 16" role="img" aria-label=${label}>${shape}</svg>`
    : html`<svg class="icon" viewBox="0 0 16 16" aria-hidden="true">${shape}</svg>`;
}
