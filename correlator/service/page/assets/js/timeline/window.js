// The part of time that is looked at: [from, to] in milliseconds. Pure.

const LEAST_MS = 50;

/** Kept inside the whole, at least 50 ms wide. */
export function bounded([from, to], [first, last]) {
  const width = Math.min(Math.max(to - from, LEAST_MS), last - first);
  const start = Math.min(Math.max(from, first), last - width);
  return [start, start + width];
}

/** Zoom by a factor (< 1: closer) around a point that stays where it is. */
export function zoomed([from, to], factor, around, whole) {
  const at = around ?? (from + to) / 2;
  return bounded([at - (at - from) * factor, at + (to - at) * factor], whole);
}

/** Move by a part of the width: 0.25 is a quarter to the right. */
export function moved([from, to], part, whole) {
  const by = (to - from) * part;
  return bounded([from + by, to + by], whole);
}
