// @ts-check
/** A modal dialog: it begins at its first empty field; the browser keeps the focus in it and closes it with Esc. */

import { html, useEffect, useRef } from "../vendor/preact.js";
import { dialog } from "../store.js";

/** @param {{title: string, children?: any}} props */
export function Dialog({ title, children }) {
  const element = useRef(/** @type {HTMLDialogElement | null} */ (null));
  useEffect(() => {
    element.current?.showModal();
    const fields = /** @type {HTMLInputElement[]} */ ([...(element.current?.querySelectorAll("input, textarea") ?? [])]);
    fields.find((field) => !field.value)?.focus();
  }, []);
  const close = () => (dialog.value = "");
  return html`<dialog ref=${element} class="dialog" aria-labelledby="dialog-title" onClose=${close}>
    <header><h2 id="dialog-title">${title}</h2><button class="quiet" aria-label="Close" onClick=${close}>✕</button></header>
    ${children}
  </dialog>`;
}
