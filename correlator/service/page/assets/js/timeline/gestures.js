// Dragging, pinching and the wheel on the time axis; the page's own scrolling is left alone.
import { useEffect, useRef } from "../lib/ui.js";
import { moved, zoomed } from "./window.js";

const DRAG_PX = 4;

/** `track` is a ref to the element whose width is the window; `change(f)` gets a function of the window. */
export function useGestures(track, whole, change) {
  const limits = useRef(whole);
  limits.current = whole;
  const apply = useRef(change);
  apply.current = change;

  useEffect(() => {
    const element = track.current;
    if (!element) return undefined;
    const pointers = new Map();
    let dragging = false;

    const timeAt = (window, x) => {
      const box = element.getBoundingClientRect();
      return window[0] + ((x - box.left) / box.width) * (window[1] - window[0]);
    };
    function wheel(event) {
      const sideways = event.shiftKey ? event.deltaY || event.deltaX : Math.abs(event.deltaX) > Math.abs(event.deltaY) ? event.deltaX : 0;
      if (event.ctrlKey || event.metaKey) {
        const factor = Math.exp(Math.max(-60, Math.min(60, event.deltaY)) * 0.006);
        apply.current((w) => zoomed(w, factor, timeAt(w, event.clientX), limits.current));
      } else if (sideways) {
        apply.current((w) => moved(w, sideways / element.clientWidth, limits.current));
      } else return;
      event.preventDefault();
    }
    function down(event) {
      if (event.button !== 0) return;
      pointers.set(event.pointerId, { x: event.clientX, from: event.clientX });
    }
    function move(event) {
      const own = pointers.get(event.pointerId);
      if (!own) return;
      const before = own.x;
      if (pointers.size === 1 && !dragging) {
        if (Math.abs(event.clientX - own.from) < DRAG_PX) return;
        dragging = true;
        element.setPointerCapture(event.pointerId);
      }
      own.x = event.clientX;
      if (pointers.size === 1) {
        apply.current((w) => moved(w, (before - own.x) / element.clientWidth, limits.current));
        return;
      }
      const other = [...pointers].find(([id]) => id !== event.pointerId)?.[1];
      const [was, is] = [Math.abs(before - other.x), Math.abs(own.x - other.x)];
      if (was > 8 && is > 8) apply.current((w) => zoomed(w, was / is, timeAt(w, (own.x + other.x) / 2), limits.current));
    }
    function up(event) {
      pointers.delete(event.pointerId);
    }
    function click(event) {
      if (!dragging) return;
      dragging = false; // the end of a drag is no click on what lies there
      event.preventDefault();
      event.stopPropagation();
    }
    const still = (event) => event.preventDefault(); // links would be dragged as links
    element.addEventListener("wheel", wheel, { passive: false });
    element.addEventListener("pointerdown", down);
    element.addEventListener("pointermove", move);
    element.addEventListener("pointerup", up);
    element.addEventListener("pointercancel", up);
    element.addEventListener("click", click, true);
    element.addEventListener("dragstart", still);
    return () => {
      element.removeEventListener("wheel", wheel);
      element.removeEventListener("pointerdown", down);
      element.removeEventListener("pointermove", move);
      element.removeEventListener("pointerup", up);
      element.removeEventListener("pointercancel", up);
      element.removeEventListener("click", click, true);
      element.removeEventListener("dragstart", still);
    };
  }, [track]);
}
