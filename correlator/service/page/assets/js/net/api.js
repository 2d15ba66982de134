// Reading the REST service. The same answer (304) is the same object, so that nothing renders again.
import { withToken } from "./token.js";

const KEPT = 60;
const known = new Map(); // path -> {etag, data}, the longest unused first

export class Problem extends Error {
  constructor(status, title, detail) {
    super(detail || title);
    this.status = status; // 0: nobody answered
    this.title = title;
    this.detail = detail;
  }
}

/** The parsed answer; throws `Problem`. */
export async function get(path, { signal } = {}) {
  const before = known.get(path);
  const headers = withToken({ Accept: "application/json" });
  if (before?.etag) headers["If-None-Match"] = before.etag;
  let response;
  try {
    response = await fetch(path, { headers, signal, cache: "no-store", credentials: "same-origin" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, "The service does not answer", "Is it still running, and is this machine online?");
  }
  if (response.status === 304 && before) return before.data;
  if (!response.ok) throw await problemOf(response);
  const data = await response.json();
  known.delete(path);
  known.set(path, { etag: response.headers.get("ETag"), data });
  if (known.size > KEPT) known.delete(known.keys().next().value);
  return data;
}

async function problemOf(response) {
  const about = await response.json().catch(() => ({}));
  const detail = typeof about.detail === "string" ? about.detail : "";
  return new Problem(response.status, about.title || `The service answered ${response.status}`, detail);
}

/** A path with its parts escaped: path`/v1/nodes/${name}`. */
export function path(strings, ...parts) {
  return strings.reduce((all, text, i) => all + text + (i < parts.length ? encodeURIComponent(parts[i]) : ""), "");
}
