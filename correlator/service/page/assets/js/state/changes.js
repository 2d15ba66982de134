// What changed lately, the newest first: history from the service, then live events as they come.
import { Observable, useObservable } from "../lib/observable.js";
import { useEffect, useMemo } from "../lib/ui.js";
import { get } from "../net/api.js";
import { listen } from "../net/live.js";
import { token } from "../net/token.js";
import { standing, story } from "../text/story.js";

export const MOST = 150;

/** Put stories into a list: one entry a key, its latest word; newest first. Pure. */
export function merged(entries, stories) {
  const byKey = new Map(entries.map((entry) => [entry.key, entry]));
  for (const told of stories) {
    const known = byKey.get(told.key);
    // what an event said is more than what the overview knows of it
    if (!known || (known.time <= told.time && (told.id || !known.id))) byKey.set(told.key, told);
  }
  return [...byKey.values()].sort((a, b) => (a.time < b.time ? 1 : a.time > b.time ? -1 : 0)).slice(0, MOST);
}

const HISTORY = [
  ["actions", "/v1/actions?limit=50"],
  ["attributions", "/v1/attributions?limit=50"],
];

const shown = new Observable([]); // since the page was opened, whatever view there is
let waiting = [];
let frame = 0;

function show() {
  frame = 0;
  shown.set(merged(shown.value, waiting));
  waiting = [];
}

function add(stories) {
  waiting.push(...stories.filter(Boolean));
  if (waiting.length > MOST) show(); // a hidden tab draws no frames
  else if (waiting.length && !frame) frame = requestAnimationFrame(show);
}

async function history() {
  for (const [topic, path] of HISTORY) {
    try {
      const { items } = await get(path);
      add(items.map((item) => story(topic, item.event ?? item)));
    } catch {
      // the live events come all the same, and the other panels say what is wrong
    }
  }
}

/** Listen from now on: what comes before the list is drawn, or while another view is, belongs in it too. */
export function start() {
  listen((topic, event) => {
    const told = topic !== "resync" && story(topic, event);
    if (told) add([{ ...told, fresh: true }]);
  });
}

/** `nodes` of the overview tell which ones were in trouble before. */
export function useChanges(nodes) {
  const entries = useObservable(shown);
  const before = useMemo(() => nodes.map(standing).filter(Boolean), [nodes]);
  useEffect(() => {
    history();
    const stops = [listen((topic) => topic === "resync" && history()), token.watch(history)];
    return () => stops.forEach((stop) => stop());
  }, []);
  return useMemo(() => merged(entries, before), [entries, before]);
}
