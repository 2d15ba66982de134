// A stream of server-sent events that comes back by itself. Read with fetch, because EventSource can't send
// the bearer token. After a break it resumes behind the last id that was seen.
import { parser } from "./sse.js";
import { withToken } from "./token.js";

const SILENCE_MS = 40_000; // the service speaks every 15 s, if only a comment
const FIRST_WAIT_MS = 400;
const LONGEST_WAIT_MS = 10_000;

export class Stream {
  #path;
  #onEvent;
  #onStatus;
  #lastId = "";
  #failures = 0;
  #abort = null;
  #timer = 0;
  #silence = 0;
  #closed = false;

  /** `onStatus("live" | "reconnecting" | "refused", {resumed})`; `onEvent({type, id, data})`. */
  constructor(path, { onEvent, onStatus }) {
    this.#path = path;
    this.#onEvent = onEvent;
    this.#onStatus = onStatus;
  }

  open() {
    this.#closed = false;
    this.#connect();
  }

  /** Try at once, instead of after the wait: the network or the tab is back, or there is another token. */
  hurry() {
    if (this.#closed || this.#abort) return;
    clearTimeout(this.#timer);
    this.#connect();
  }

  close() {
    this.#closed = true;
    clearTimeout(this.#timer);
    clearTimeout(this.#silence);
    this.#abort?.abort();
    this.#abort = null;
  }

  async #connect() {
    const abort = (this.#abort = new AbortController());
    let refused = false;
    try {
      const headers = withToken({ Accept: "text/event-stream" });
      if (this.#lastId) headers["Last-Event-ID"] = this.#lastId;
      this.#watch(abort);
      const response = await fetch(this.#path, { headers, signal: abort.signal, cache: "no-store" });
      refused = response.status === 401 || response.status === 403;
      if (response.ok) await this.#read(response, abort);
    } catch {
      // whatever broke it, the answer is the same: say so and try again
    }
    clearTimeout(this.#silence);
    if (this.#abort === abort) this.#abort = null;
    if (this.#closed) return;
    this.#onStatus(refused ? "refused" : "reconnecting", {});
    const wait = Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** this.#failures++) * (0.7 + Math.random() * 0.6);
    this.#timer = setTimeout(() => this.#connect(), wait);
  }

  async #read(response, abort) {
    const resumed = this.#lastId !== "";
    this.#failures = 0;
    this.#onStatus("live", { resumed });
    const feed = parser(this.#onEvent, (id) => {
      this.#lastId = id;
    });
    const decoder = new TextDecoder();
    const reader = response.body.getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      this.#watch(abort);
      feed(decoder.decode(value, { stream: true }));
    }
  }

  #watch(abort) {
    clearTimeout(this.#silence);
    this.#silence = setTimeout(() => abort.abort(), SILENCE_MS);
  }
}
