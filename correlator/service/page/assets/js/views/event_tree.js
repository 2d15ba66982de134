// A tree of causes that is walked like any tree: arrows move, open and close; Enter goes to the event.
import { html, useState } from "../lib/ui.js";
import { Icon } from "../parts/icons.js";
import { Severity, Time } from "../parts/marks.js";
import { href } from "../state/route.js";
import { iconOf, isRaw, kindName } from "../text/kinds.js";
import { titleOf } from "../text/titles.js";

function walk(event) {
  const items = [...event.currentTarget.querySelectorAll("[role=treeitem]")];
  const here = document.activeElement.closest("[role=treeitem]");
  const at = items.indexOf(here);
  const focus = (item) => item?.focus();
  const open = here?.getAttribute("aria-expanded");
  switch (event.key) {
    case "ArrowDown": focus(items[at + 1]); break;
    case "ArrowUp": focus(items[at - 1]); break;
    case "Home": focus(items[0]); break;
    case "End": focus(items.at(-1)); break;
    case "ArrowRight": open === "false" ? here.querySelector("button")?.click() : open === "true" && focus(items[at + 1]); break;
    case "ArrowLeft": open === "true" ? here.querySelector("button")?.click() : focus(here?.parentElement.closest("[role=treeitem]")); break;
    case "Enter": if (event.target === here) here.querySelector("a")?.click(); else return; break;
    default: return;
  }
  event.preventDefault();
}

export const Tree = ({ root }) => html`
  <ul class="tree" role="tree" aria-label="Evidence chain" onKeyDown=${walk}><${Branch} link=${root} depth=${0} first=${true} /></ul>
`;

/** What a verdict made of each piece of its evidence: id -> symptom. */
function weighed({ kind, event }) {
  if (kind !== "attribution") return null;
  const { active, interesting } = event.data;
  return new Map([...interesting, ...active].flatMap((s) => s.evidence.map((id) => [id, s])));
}

function Branch({ link, depth, first, symptom }) {
  const [open, setOpen] = useState(true);
  const causes = link.causes ?? [];
  const weights = weighed(link);
  const name = link.missing ? "not in the store" : titleOf(link);
  const body = link.missing
    ? html`<span class="muted">${link.id.slice(0, 12)}… is not in the store: it has not arrived yet, or was kept for its time</span>`
    : html`
      <span class="row">
        <span class="sev" data-severity=${link.event?.data?.severity ?? "info"}><${Icon} name=${iconOf(link)} /></span>
        <a href=${href.event(link.id)} tabIndex=${-1} class=${isRaw(link.kind) ? "mono raw" : ""}>${titleOf(link)}</a>
      </span>
      <span class="meta small muted">
        <span>${kindName(link.kind)}</span> <${Time} at=${link.time} decimals=${3} />
        ${link.note && html`<span class="tag" data-tone="drill">${link.note}</span>`}
        ${link.event?.data?.severity && html`<${Severity} severity=${link.event.data.severity} />`}
        ${link.again && html`<span>shown above already</span>`}
        ${symptom?.demoted_by && html`<span>set aside by <span class="tag mono">${symptom.demoted_by}</span> ${symptom.reason}</span>`}
      </span>`;
  return html`
    <li role="treeitem" aria-level=${depth + 1} aria-expanded=${causes.length ? String(open) : null} aria-label=${name} tabIndex=${first ? 0 : -1} data-kind=${link.kind ?? "missing"}>
      <div class="leaf">
        ${causes.length ? html`<button class="fold" tabIndex=${-1} aria-label=${open ? "Close" : "Open"} onClick=${() => setOpen(!open)}>${open ? "−" : "+"}</button>` : html`<i class="end" />`}
        <div>${body}</div>
      </div>
      ${causes.length > 0 && open && html`
        <ul role="group">
          ${causes.map((cause) => html`<${Branch} key=${cause.id} link=${cause} depth=${depth + 1} symptom=${weights?.get(cause.id)} />`)}
          ${link.hidden && html`<li role="none" class="muted small more">and ${link.hidden} more</li>`}
        </ul>`}
    </li>
  `;
}
