// What stands where data should: not yet, nothing, or an error. Each says what to do next.
import { html, useState } from "../lib/ui.js";
import { token } from "../net/token.js";

export const Waiting = ({ lines = 4 }) =>
  html`<div class="wait" role="status"><span class="hidden">Loading</span>${Array.from({ length: lines }, () => html`<i />`)}</div>`;

export const Empty = ({ title, children }) => html`<div class="teach"><b>${title}</b>${children && html`<span>${children}</span>`}</div>`;

const HINTS = {
  0: "The page keeps trying. If it lasts: is `faultwire serve` running, and can this machine reach it?",
  404: "Nothing of that name is in the store. It may be older than the store keeps, or not have arrived yet.",
  429: "Too many requests at once. The page slows down and tries again.",
  503: "The service is up but not ready: it may still be reading the topics for the first time.",
};

export function Failed({ error, what }) {
  if (error.status === 401 || error.status === 403) return html`<${AskToken} error=${error} />`;
  return html`
    <div class="teach" data-tone="error" role="alert">
      <b>${what ? `${what}: ` : ""}${error.title ?? error.message}</b>
      ${error.detail && html`<span>${error.detail}</span>`}
      ${HINTS[error.status] && html`<span>${ticked(HINTS[error.status])}</span>`}
    </div>
  `;
}

const ticked = (text) => text.split("`").map((part, i) => (i % 2 ? html`<code>${part}</code>` : part));

function AskToken({ error }) {
  const [value, setValue] = useState("");
  const submit = (event) => {
    event.preventDefault();
    token.set(value.trim());
  };
  return html`
    <div class="teach" data-tone="error">
      <b>${error.status === 401 ? "This service asks for a token" : "This token may not read"}</b>
      <span>A token with the scope <code>read</code> is enough. It is kept in this tab only.</span>
      <form onSubmit=${submit}>
        <label><span class="hidden">Token</span>
          <input type="password" autocomplete="off" value=${value} placeholder="Token" onInput=${(e) => setValue(e.target.value)} />
        </label>
        <button class="button">Use it</button>
      </form>
    </div>
  `;
}

/** Above data that could not be fetched again. */
export const Stale = ({ error }) => (error ? html`<p class="stale" role="status">What is shown may be old: ${error.title ?? error.message}</p>` : null);
