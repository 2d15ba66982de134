import { html } from "../lib/ui.js";

/** A titled section. `tools` stand at the right of the title. */
export const Panel = ({ id, title, about, tools, children, class: name = "" }) => html`
  <section class="panel ${name}" aria-labelledby=${id}>
    <header>
      <h2 id=${id}>${title}</h2>
      ${about && html`<span class="muted small">${about}</span>`}
      <span class="space" />
      ${tools}
    </header>
    ${children}
  </section>
`;
