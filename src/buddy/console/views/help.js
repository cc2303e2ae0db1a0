// @ts-check
import { html } from "../vendor/preact.js";
import { KEYS } from "../keys.js";
import { Dialog } from "./dialog.js";

export function Help() {
  return html`<${Dialog} title="Keys">
    <dl class="keys">${KEYS.map(([key, meaning]) => html`<div><dt><kbd>${key}</kbd></dt><dd>${meaning}</dd></div>`)}</dl>
  <//>`;
}
