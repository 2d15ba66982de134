// The bearer token, kept for this tab only.
import { Observable } from "../lib/observable.js";

const KEY = "faultwire.token";

function stored() {
  try {
    return sessionStorage.getItem(KEY) ?? "";
  } catch {
    return "";
  }
}

export const token = new Observable(stored());

token.watch((value) => {
  try {
    if (value) sessionStorage.setItem(KEY, value);
    else sessionStorage.removeItem(KEY);
  } catch {
    // no storage: the token lasts until the page is left
  }
});

export function withToken(headers = {}) {
  return token.value ? { ...headers, Authorization: `Bearer ${token.value}` } : headers;
}
