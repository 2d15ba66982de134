// One answer of the service, kept current: fetched again when a live event concerns it, and after a break.
import { useEffect, useRef, useState } from "../lib/ui.js";
import { get } from "../net/api.js";
import { listen } from "../net/live.js";
import { token } from "../net/token.js";

const SETTLE_MS = 120; // events come in bursts
const SHARE = 4; // of the time at most 1/4 is spent fetching
const AGAIN_MS = 3_000; // after nobody answered, or the service could not

/**
 * {data, error, loading}: data stays while it is fetched again, and when that fails.
 * `concerns(topic, event)` says which live events change the answer; a path of null fetches nothing.
 */
export function useResource(path, concerns) {
  const [state, setState] = useState({ path, data: null, error: null, loading: path !== null });
  const test = useRef(concerns);
  test.current = concerns;

  useEffect(() => {
    if (path === null) {
      setState({ path, data: null, error: null, loading: false });
      return undefined;
    }
    const abort = new AbortController();
    let timer = 0;
    let retry = 0;
    let running = false;
    let again = false;
    let last = { at: 0, took: 0 };
    setState((s) => (s.path === path ? s : { path, data: null, error: null, loading: true }));

    async function load() {
      timer = 0;
      clearTimeout(retry);
      if (running) {
        again = true;
        return;
      }
      running = true;
      const began = performance.now();
      try {
        const data = await get(path, { signal: abort.signal });
        setState((s) => (s.data === data && !s.error && !s.loading ? s : { path, data, error: null, loading: false }));
      } catch (error) {
        if (abort.signal.aborted) return;
        setState((s) => ({ path, data: s.path === path ? s.data : null, error, loading: false }));
        if (error.status === 0 || error.status === 429 || error.status >= 500) retry = setTimeout(load, AGAIN_MS);
      } finally {
        running = false;
        last = { at: performance.now(), took: performance.now() - began };
      }
      if (again) {
        again = false;
        soon();
      }
    }
    function soon() {
      if (timer || abort.signal.aborted) return;
      const rest = last.at + SHARE * last.took - performance.now();
      timer = setTimeout(load, Math.max(SETTLE_MS, rest));
    }

    load();
    const stops = [
      listen((topic, event) => {
        if (topic === "resync" || test.current?.(topic, event)) soon();
      }),
      token.watch(() => load()),
    ];
    return () => {
      abort.abort();
      clearTimeout(timer);
      clearTimeout(retry);
      for (const stop of stops) stop();
    };
  }, [path]);

  return state.path === path ? state : { path, data: null, error: null, loading: path !== null };
}
