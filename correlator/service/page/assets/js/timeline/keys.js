// The timeline by keyboard: arrows walk through what happened, Shift with arrows moves, + - 0 zoom.
import { useLayoutEffect } from "../lib/ui.js";
import { moved, zoomed } from "./window.js";

const ITEMS = ".span, .mark";
const CLOSER = 0.6;
const ZOOM = { "+": CLOSER, "=": CLOSER, "-": 1 / CLOSER, _: 1 / CLOSER };
const MOVE = { ArrowLeft: -0.25, ArrowRight: 0.25 };

/** Handles a key in `root`: `change(f)` gets a function of the window, `reset()` shows the incident. */
export function handleKey(event, { root, whole, around, change, reset }) {
  const { key } = event;
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (ZOOM[key]) change((w) => zoomed(w, ZOOM[key], around, whole));
  else if (key === "0") reset();
  else if (event.shiftKey && MOVE[key]) change((w) => moved(w, MOVE[key], whole));
  else if (key.startsWith("Arrow")) walk(root, key);
  else return;
  event.preventDefault();
}

/** The focus stays on the same thing though news move it to another row. */
export function useKeptFocus(root) {
  const here = document.activeElement;
  const key = root.current?.contains(here) ? here.dataset.key : undefined; // before anything is drawn anew
  useLayoutEffect(() => {
    if (key === undefined || document.activeElement !== document.body) return;
    const element = [...root.current.querySelectorAll(ITEMS)].find((e) => e.dataset.key === key);
    element?.focus({ preventScroll: true });
  });
}

const left = (element) => element.getBoundingClientRect().left;

/** Left and right go in time within a lane, up and down to the lane above and below. */
function walk(root, key) {
  const here = document.activeElement;
  const lane = here.matches(ITEMS) ? here.closest(".lane") : null;
  const target = lane ? beside(root, lane, here, key) : root.querySelector(ITEMS);
  target?.focus();
  target?.scrollIntoView({ block: "nearest", inline: "nearest" });
}

function beside(root, lane, here, key) {
  if (key === "ArrowLeft" || key === "ArrowRight") {
    const inTime = [...lane.querySelectorAll(ITEMS)].sort((a, b) => left(a) - left(b));
    return inTime[inTime.indexOf(here) + (key === "ArrowRight" ? 1 : -1)];
  }
  const lanes = [...root.querySelectorAll(".lane")];
  const step = key === "ArrowDown" ? 1 : -1;
  const away = (element) => Math.abs(left(element) - left(here));
  for (let i = lanes.indexOf(lane) + step; lanes[i]; i += step) {
    const items = [...lanes[i].querySelectorAll(ITEMS)];
    if (items.length) return items.reduce((best, item) => (away(item) < away(best) ? item : best));
  }
  return null;
}
