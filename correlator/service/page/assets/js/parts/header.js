// The bar above every view: where one is, search, whether what is shown is of now, and the theme.
import { useNow } from "../lib/clock.js";
import { useObservable } from "../lib/observable.js";
import { html } from "../lib/ui.js";
import { status } from "../net/live.js";
import { useRoute } from "../state/route.js";
import { next as nextTheme, theme } from "../state/theme.js";
import { age, clock } from "../text/time.js";
import { Icon } from "./icons.js";
import { Find } from "./find.js";

export function Header() {
  const { path } = useRoute();
  const here = (href) => (path === href || (href !== "/" && path.startsWith(href)) ? "page" : null);
  return html`
    <header class="bar"><div>
      <a class="brand" href="/"><${Logo} />Faultwire</a>
      <nav aria-label="Views">
        <a href="/" aria-current=${here("/")}>Fleet</a>
        <a href="/jobs" aria-current=${here("/jobs")}>Jobs</a>
      </nav>
      <span class="space" />
      <${Find} />
      <${Live} />
      <${ThemeButton} />
    </div></header>
  `;
}

const Logo = () => html`
  <svg viewBox="0 0 32 32" aria-hidden="true">
    <path d="M2 17h8l3-8 4 15 3-7h10" fill="none" stroke="currentColor" stroke-width="2.8" stroke-linejoin="round" stroke-linecap="round" />
    <circle cx="13" cy="9" r="3" fill="var(--quarantined)" />
  </svg>
`;

const WORDS = {
  connecting: () => "connecting",
  live: () => "live",
  reconnecting: (since) => `reconnecting, stale for ${age(since)}`,
  refused: () => "not live: needs a token",
};

function Live() {
  const { status: now, staleSince } = useObservable(status);
  const time = useNow();
  const since = staleSince === null ? 0 : (time - staleSince) / 1000;
  // read out when the state changes, not each second
  return html`
    <span class="live" data-status=${now} title=${staleSince === null ? "Events arrive as they are published" : `What is shown is of ${clock(staleSince)} UTC`}>
      <${Icon} name=${now === "live" ? "live" : "broken"} />
      <span aria-hidden="true">${WORDS[now](since)}</span>
      <span class="muted long" aria-hidden="true">${clock(time)} UTC</span>
      <span class="hidden" role="status">${now === "live" ? "Live" : now === "reconnecting" ? "Connection lost, reconnecting" : ""}</span>
    </span>
  `;
}

function ThemeButton() {
  const now = useObservable(theme);
  return html`<button class="tool" aria-label=${`Theme: ${now}. Switch to ${nextTheme(now)}`} title=${`Theme: ${now}`} onClick=${() => theme.set(nextTheme(now))}><${Icon} name=${now} /></button>`;
}
