// The present, once a second, for ages and running durations. It stands still in a hidden tab.
import { Observable, useObservable } from "./observable.js";

export const now = new Observable(Date.now());

setInterval(() => {
  if (!document.hidden) now.set(Date.now());
}, 1000);
document.addEventListener("visibilitychange", () => {
  if (!document.hidden) now.set(Date.now());
});

export const useNow = () => useObservable(now);
