// What changed lately, the newest first: history from the service, then live events as they come.
import { useEffect, useMemo, useState } from "../lib/ui.js";
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

let kept = []; // survives a walk to another view and back

/** `nodes` of the overview tell which ones were in trouble before. */
export function useChanges(nodes) {
  const [entries, setEntries] = useState(kept);
  const before = useMemo(() => nodes.map(standing).filter(Boolean), [nodes]);
  useEffect(() => {
    let waiting = [];
    let frame = 0;
    let gone = false;
    const show = () => {
      frame = 0;
      kept = merged(kept, waiting);
      waiting = [];
      setEntries(kept);
    };
    const add = (stories) => {
      waiting.push(...stories.filter(Boolean));
      if (waiting.length && !frame && !gone) frame = requestAnimationFrame(show);
    };
    const history = async () => {
      for (const [topic, path] of HISTORY) {
        try {
          const { items } = await get(path);
          add(items.map((item) => story(topic, item.event ?? item)));
        } catch {
          // the live events come all the same, and the other panels say what is wrong
        }
      }
    };
    history();
    const stops = [
      listen((topic, event) => {
        if (topic === "resync") history();
        else add([{ ...story(topic, event), fresh: true }].filter((s) => s.key));
      }),
      token.watch(history),
    ];
    return () => {
      gone = true;
      cancelAnimationFrame(frame);
      for (const stop of stops) stop();
    };
  }, []);
  return useMemo(() => merged(entries, before), [entries, before]);
}
