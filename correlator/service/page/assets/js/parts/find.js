// Search over what the overview knows: nodes and jobs; anything else is taken for an event id.
import { html, useEffect, useMemo, useRef, useState } from "../lib/ui.js";
import { get } from "../net/api.js";
import { href, navigate } from "../state/route.js";

const MOST = 8;
const EVENT_ID = /^[0-9a-f]{32}$/;

/** [{text, about, href}], the best first. Pure. */
export function results(overview, text) {
  const wanted = text.trim().toLowerCase();
  if (!wanted) return [];
  const found = [];
  if (EVENT_ID.test(wanted)) found.push({ text: wanted, about: "event", href: href.event(wanted), weight: 0 });
  const weigh = (name) => (name === wanted ? 0 : name.startsWith(wanted) ? 1 : name.includes(wanted) ? 2 : -1);
  for (const job of overview?.jobs ?? []) {
    const weight = Math.max(weigh(job.job_id.toLowerCase()), job.name ? weigh(job.name.toLowerCase()) : -1);
    if (weight >= 0) found.push({ text: `${job.job_id}/${job.attempt}`, about: job.name ? `job, ${job.name}` : "job", href: href.job(job.job_id, job.attempt), weight });
  }
  for (const node of overview?.nodes ?? []) {
    const weight = weigh(node.node.toLowerCase());
    if (weight >= 0) found.push({ text: node.node, about: node.state, href: href.node(node.node), weight: weight + 0.5 });
  }
  return found.sort((a, b) => a.weight - b.weight).slice(0, MOST);
}

export function Find() {
  const [text, setText] = useState("");
  const [overview, setOverview] = useState(null);
  const [at, setAt] = useState(0);
  const [open, setOpen] = useState(false);
  const input = useRef(null);
  const found = useMemo(() => (open ? results(overview, text) : []), [overview, text, open]);

  useEffect(() => {
    const slash = (event) => {
      if (event.key !== "/" || event.ctrlKey || event.metaKey || event.target.closest?.("input, textarea, select")) return;
      event.preventDefault();
      input.current?.focus();
    };
    addEventListener("keydown", slash);
    return () => removeEventListener("keydown", slash);
  }, []);

  const focus = () => {
    setOpen(true);
    get("/v1/overview").then(setOverview, () => setOverview(null));
  };
  const go = (result) => {
    if (!result) return;
    setText("");
    setOpen(false);
    input.current?.blur();
    navigate(result.href);
  };
  const keys = (event) => {
    if (event.key === "ArrowDown") setAt((i) => Math.min(found.length - 1, i + 1));
    else if (event.key === "ArrowUp") setAt((i) => Math.max(0, i - 1));
    else if (event.key === "Enter") go(found[at]);
    else if (event.key === "Escape") {
      setText("");
      setOpen(false);
      input.current?.blur();
    } else return;
    event.preventDefault();
  };
  return html`
    <div class="find" role="search">
      <input ref=${input} type="text" role="combobox" autocomplete="off" spellcheck=${false} placeholder="Find a node, job or event id"
        aria-label="Find a node, job or event id" aria-expanded=${found.length > 0} aria-controls="found" aria-autocomplete="list"
        aria-activedescendant=${found[at] ? `found-${at}` : null} value=${text} onFocus=${focus} onBlur=${() => setOpen(false)}
        onInput=${(e) => { setText(e.target.value); setAt(0); }} onKeyDown=${keys} />
      <kbd aria-hidden="true">/</kbd>
      ${found.length > 0 && html`<ul id="found" role="listbox" aria-label="Found">${found.map((r, i) => html`
        <li id=${`found-${i}`} role="option" aria-selected=${i === at} onMouseDown=${(e) => { e.preventDefault(); go(r); }} onMouseEnter=${() => setAt(i)}><span class="mono">${r.text}</span><span class="muted small">${r.about}</span></li>`)}</ul>`}
    </div>
  `;
}
