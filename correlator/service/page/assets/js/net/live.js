// The page's one stream: who listens to what, and whether what is shown is of now.
import { Observable } from "../lib/observable.js";
import { Stream } from "./stream.js";
import { token } from "./token.js";

const TOPICS = ["signals", "health", "attributions", "actions", "jobs"];
const listeners = new Set();

/** {status: connecting | live | reconnecting | refused, staleSince: ms or null} */
export const status = new Observable({ status: "connecting", staleSince: null });

/** Calls `listener(topic, event)` for each live event, and `listener("resync")` after a break, when events may
 * have been missed. Returns the function that stops it. */
export function listen(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

function tell(topic, event) {
  for (const listener of [...listeners]) listener(topic, event);
}

let wasLive = false;

const stream = new Stream(`/v1/stream?topics=${TOPICS.join(",")}`, {
  onEvent({ type, data }) {
    let event;
    try {
      event = JSON.parse(data);
    } catch {
      return; // not ours; the next fetch shows what is
    }
    if (TOPICS.includes(type)) tell(type, event);
    else if (type === "reset") tell("resync");
  },
  onStatus(now) {
    const before = status.value;
    if (now === "live") {
      status.set({ status: "live", staleSince: null });
      if (wasLive && before.status !== "live") tell("resync");
      wasLive = true;
    } else {
      status.set({ status: wasLive || now === "refused" ? now : "connecting", staleSince: before.staleSince ?? Date.now() });
    }
  },
});

export function start() {
  stream.open();
  addEventListener("online", () => stream.hurry());
  addEventListener("pagehide", () => stream.close());
  addEventListener("pageshow", (event) => event.persisted && stream.open());
  document.addEventListener("visibilitychange", () => document.hidden || stream.hurry());
  token.watch(() => stream.hurry());
}
