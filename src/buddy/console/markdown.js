// @ts-check
/**
 * Markdown as nodes: a lexer makes tokens, and every token becomes an element with text in it. No markup of the text
 * itself ever reaches the page; HTML, images and unknown things are shown as the text that they are.
 */

import { html } from "./vendor/preact.js";
import { lexer } from "./vendor/marked.js";
import { visible } from "./text.js";

// Above this, text is shown plainly: a page must stay quick whatever a model writes.
const MAX_RENDERED = 100_000;
const MAX_DEPTH = 30;
const MAX_KEPT = 200;

/** What was lexed lately: time travel shows the same texts again and again. @type {Map<string, any[]>} */
const kept = new Map();

/** @param {string} text */
export function markdown(text) {
  const shown = visible(text);
  if (shown.length > MAX_RENDERED || isTooDeep(shown)) return html`<pre class="plain">${shown}</pre>`;
  try {
    return blocks(tokensOf(shown), 0);
  } catch {
    return html`<pre class="plain">${shown}</pre>`;
  }
}

/** @param {string} text */
function tokensOf(text) {
  const known = kept.get(text);
  if (known) return known;
  const tokens = lexer(text, { gfm: true });
  if (kept.size >= MAX_KEPT) kept.clear();
  kept.set(text, tokens);
  return tokens;
}

/** Quotes and lists in each other cost the lexer more than their length. @param {string} text */
function isTooDeep(text) {
  return /^(?:[ \t]*(?:>|[-*+]|\d+[.)])[ \t]*){20}/m.test(text) || /[[\]*_`~(<]{200}/.test(text);
}

/** @param {any[] | undefined} tokens @param {number} depth @returns {any[]} */
function blocks(tokens, depth) {
  if (depth > MAX_DEPTH) return (tokens ?? []).map((token) => token.raw);
  return (tokens ?? []).map((token) => block(token, depth));
}

/** @param {any} token @param {number} depth @returns {any} */
function block(token, depth) {
  switch (token.type) {
    case "space":
    case "def":
    case "checkbox":
      return null;
    case "heading":
      return html`<p class=${`heading level-${Math.min(token.depth, 4)}`}>${inline(token.tokens, depth)}</p>`;
    case "code":
      return html`<pre class="code" tabindex="0" data-language=${token.lang || null}><code>${token.text}</code></pre>`;
    case "blockquote":
      return html`<blockquote>${blocks(token.tokens, depth + 1)}</blockquote>`;
    case "list":
      return list(token, depth);
    case "table":
      return table(token, depth);
    case "hr":
      return html`<hr />`;
    case "paragraph":
      return html`<p>${inline(token.tokens, depth)}</p>`;
    case "text":
      return token.tokens ? inline(token.tokens, depth) : token.text;
    default:
      return html`<p>${token.raw}</p>`;
  }
}

/** @param {any} token @param {number} depth */
function list(token, depth) {
  const items = token.items.map(
    (/** @type {any} */ item) => html`<li>
      ${item.task ? html`<span class="task" role="img" aria-label=${item.checked ? "done" : "to do"}>${item.checked ? "☑" : "☐"}</span>` : null}
      ${blocks(item.tokens, depth + 1)}
    </li>`,
  );
  return token.ordered ? html`<ol start=${Number(token.start) || 1}>${items}</ol>` : html`<ul>${items}</ul>`;
}

/** @param {any} token @param {number} depth */
function table(token, depth) {
  return html`<div class="table" tabindex="0"><table>
    <thead><tr>${token.header.map((/** @type {any} */ cell) => html`<th scope="col">${inline(cell.tokens, depth)}</th>`)}</tr></thead>
    <tbody>${token.rows.map((/** @type {any[]} */ row) => html`<tr>${row.map((cell) => html`<td>${inline(cell.tokens, depth)}</td>`)}</tr>`)}</tbody>
  </table></div>`;
}

/** @param {any[] | undefined} tokens @param {number} depth @returns {any[]} */
function inline(tokens, depth) {
  if (depth > MAX_DEPTH) return (tokens ?? []).map((token) => token.raw);
  return (tokens ?? []).map((token) => span(token, depth + 1));
}

/** @param {any} token @param {number} depth @returns {any} */
function span(token, depth) {
  switch (token.type) {
    case "strong":
      return html`<strong>${inline(token.tokens, depth)}</strong>`;
    case "em":
      return html`<em>${inline(token.tokens, depth)}</em>`;
    case "del":
      return html`<del>${inline(token.tokens, depth)}</del>`;
    case "codespan":
      return html`<code>${token.text}</code>`;
    case "br":
      return html`<br />`;
    case "link":
      return link(token, depth);
    case "text":
      return token.tokens ? inline(token.tokens, depth) : token.text;
    case "escape":
      return token.text;
    default:
      return token.raw;
  }
}

/** @param {any} token @param {number} depth */
function link(token, depth) {
  const url = safeUrl(token.href);
  if (!url) return token.raw;
  const words = inline(token.tokens, depth);
  const isBare = token.text === token.href || `http://${token.text}` === token.href;
  const place = isBare ? null : html`<span class="link-host"> (${url.host || url.href})</span>`;
  return html`<a href=${url.href} target="_blank" rel="noopener noreferrer nofollow" title=${url.href}>${words}</a>${place}`;
}

/** Only web pages can be opened. @param {string} href */
export function safeUrl(href) {
  try {
    const url = new URL(href);
    return ["http:", "https:"].includes(url.protocol) && !url.username && !url.password ? url : null;
  } catch {
    return null;
  }
}
