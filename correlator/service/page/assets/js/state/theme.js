// system, light or dark. early.js applies a kept choice before the first paint.
import { Observable } from "../lib/observable.js";

const KEY = "faultwire.theme";
const ORDER = ["system", "light", "dark"];

export const theme = new Observable(document.documentElement.dataset.theme ?? "system");
export const next = (now) => ORDER[(ORDER.indexOf(now) + 1) % ORDER.length];

theme.watch((chosen) => {
  if (chosen === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = chosen;
  try {
    localStorage.setItem(KEY, chosen);
  } catch {
    // no storage: the choice lasts until the page is left
  }
});
