// The verdict revisions of an attempt, rising: those that the service has, and those that just came by.
import { useEffect, useMemo, useState } from "../lib/ui.js";
import { listen } from "../net/live.js";

/** By id once, in order of their revisions. Pure. */
export function united(fetched, heard) {
  const byId = new Map([...heard, ...fetched].map((event) => [event.id, event]));
  return [...byId.values()].sort((a, b) => a.data.revision - b.data.revision);
}

/** A verdict is shown when it is heard, not when it has been fetched. */
export function useRevisions(id, attempt, answer) {
  const [heard, setHeard] = useState([]);
  useEffect(
    () =>
      listen((topic, event) => {
        if (topic !== "attributions" || event.data.job_id !== id || event.data.attempt !== attempt) return;
        setHeard((known) => [...known, event]);
      }),
    [id, attempt],
  );
  return useMemo(() => united(answer?.revisions ?? [], heard), [answer, heard]);
}
