// @ts-check
/** What somebody sees who has no link, or whose link is used up. */

import { html } from "../vendor/preact.js";

/** @param {{problem: string}} props */
export function SignedOut({ problem }) {
  return html`<main class="signed-out">
    <h1>Buddy</h1>
    <p role="alert">${problem}</p>
    <p>A link works once, and only for some minutes. Get a new one on the machine where Buddy runs:</p>
    <pre class="code"><code>buddy web</code></pre>
    <p class="muted">To let somebody else watch or approve one session: <code>buddy web --share observer --session ID</code></p>
  </main>`;
}
