// @ts-check
/** Parts of the page that are loaded when they are first shown. */

import { html, signal } from "../vendor/preact.js";

/** @param {() => Promise<any>} load @param {string} name */
export function lazy(load, name) {
  /** @type {import("../vendor/preact.js").Signal<any>} */
  const part = signal(null);
  const problem = signal("");
  let isAsked = false;
  return (/** @type {any} */ props) => {
    if (part.value) return html`<${part.value} ...${props} />`;
    if (!isAsked) {
      isAsked = true;
      load().then(
        (module) => (part.value = module[name]),
        () => {
          isAsked = false;
          problem.value = "This part of the page could not be loaded. Reload the page when the connection is back.";
        },
      );
    }
    return html`<p class="muted empty">${problem.value || "Loading…"}</p>`;
  };
}
