// @ts-check
/** A diff, unified or side by side, with a place for comments on lines. */

import { html } from "../vendor/preact.js";
import { diffRows, sideBySide } from "../diff.js";
import { cut, plural, visible } from "../text.js";

const LONGEST_LINE = 1000;

/** @typedef {import("../diff.js").DiffRow} DiffRow */
/** @typedef {{text: string, most: number, isSplit?: boolean, onLine?: (row: DiffRow) => void, comments?: Map<string, string>}} Props */

/** @param {Props} props */
export function Diff({ text, most, isSplit = false, onLine, comments }) {
  const rows = diffRows(visible(text));
  const shown = rows.slice(0, most);
  const left = rows.length - shown.length;
  return html`<div class=${`diff ${isSplit ? "split" : "unified"}`} tabindex="0" role="group" aria-label="Changes">
    ${isSplit
      ? sideBySide(shown).map(({ left, right, wide }) =>
          wide
            ? html`<div class=${`diff-line ${wide.kind}`}><span class="code-text">${wide.text}</span></div>`
            : html`<div class="diff-pair"><${Line} row=${left} side="old" onLine=${onLine} /><${Line} row=${right} side="new" onLine=${onLine} /></div><${Comment} row=${right ?? left} comments=${comments} />`)
      : shown.map((row) => html`<${Line} row=${row} onLine=${onLine} /><${Comment} row=${row} comments=${comments} />`)}
    ${left > 0 ? html`<p class="muted">… ${plural(left, "more line")}</p>` : null}
  </div>`;
}

/** @param {{row: DiffRow | null, side?: "old" | "new", onLine?: (row: DiffRow) => void}} props */
function Line({ row, side, onLine }) {
  if (!row) return html`<div class="diff-line none"></div>`;
  const number = side === "old" ? row.old : side === "new" ? row.new : row.new ?? row.old;
  const canComment = onLine && (row.kind === "add" || row.kind === "remove" || row.kind === "same");
  const sign = { add: "+", remove: "-" }[/** @type {string} */ (row.kind)] ?? " ";
  return html`<div class=${`diff-line ${row.kind}`}>
    ${canComment
      ? html`<button class="line-number" aria-label=${`Comment on line ${number}`} onClick=${() => onLine(row)}>${number}</button>`
      : html`<span class="line-number" aria-hidden="true">${number ?? ""}</span>`}
    <span class="line-sign" aria-hidden="true">${sign}</span><span class="code-text">${cut(row.text, LONGEST_LINE)}</span>
  </div>`;
}

/** @param {{row: DiffRow | null, comments?: Map<string, string>}} props */
function Comment({ row, comments }) {
  const text = row && comments?.get(lineKey(row));
  return text ? html`<p class="line-comment">${visible(text)}</p>` : null;
}

/** @param {DiffRow} row */
export function lineKey(row) {
  return row.new !== null ? `+${row.new}` : `-${row.old}`;
}
