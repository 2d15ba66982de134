// The address is the state: which view, and its filters.
import { Observable, useObservable } from "../lib/observable.js";

const read = () => ({ path: location.pathname, query: new URLSearchParams(location.search) });

export const route = new Observable(read());

export function navigate(href, { replace = false } = {}) {
  history[replace ? "replaceState" : "pushState"](null, "", href);
  route.set(read());
}

/** Which view a path means: {view, params}. Names may hold slashes, escaped. */
export function match(path) {
  const parts = path.split("/").filter(Boolean).map(decode);
  if (parts.length === 0) return { view: "fleet", params: {} };
  if (parts[0] === "jobs" && parts.length === 1) return { view: "jobs", params: {} };
  if (parts[0] === "jobs" && parts.length >= 2) {
    const attempt = parts.length > 2 && /^\d+$/.test(parts.at(-1)) ? Number(parts.at(-1)) : null;
    const id = parts.slice(1, attempt === null ? undefined : -1).join("/");
    return { view: "job", params: { id, attempt } };
  }
  if (parts[0] === "nodes" && parts.length >= 2) return { view: "node", params: { node: parts.slice(1).join("/") } };
  if (parts[0] === "events" && parts.length === 2) return { view: "event", params: { id: parts[1] } };
  return { view: "unknown", params: {} };
}

function decode(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export const href = {
  fleet: "/",
  job: (id, attempt) => `/jobs/${encodeURIComponent(id)}${attempt == null ? "" : `/${attempt}`}`,
  node: (node) => `/nodes/${encodeURIComponent(node)}`,
  event: (id) => `/events/${encodeURIComponent(id)}`,
};

export const useRoute = () => useObservable(route);

/** A filter that lives in the address: [value, set]. The default is left out of it. */
export function useQuery(name, initial = "") {
  const { query } = useRoute();
  const value = query.get(name) ?? initial;
  const set = (next) => {
    const changed = new URLSearchParams(location.search);
    if (next === initial || next == null) changed.delete(name);
    else changed.set(name, next);
    const text = changed.toString();
    navigate(location.pathname + (text ? `?${text}` : ""), { replace: true });
  };
  return [value, set];
}

/** Follow links inside the page without loading it again. */
export function start() {
  addEventListener("popstate", () => route.set(read()));
  document.addEventListener("click", (event) => {
    if (event.defaultPrevented || event.button !== 0) return;
    if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    const link = event.target.closest?.("a[href]");
    if (!link || link.target || link.hasAttribute("download") || link.origin !== location.origin) return;
    if (match(link.pathname).view === "unknown" || link.getAttribute("href").startsWith("#")) return;
    event.preventDefault();
    if (link.href !== location.href) navigate(link.href);
  });
}
