// @ts-check
/** What a message can begin with: commands, skills and the prompts of servers, offered while their name is typed. */

import { html, signal } from "../vendor/preact.js";
import { connection, isOwner } from "../store.js";
import { visible } from "../text.js";

const MOST = 8;
const FRESH_MS = 3000;

/** @typedef {{name: string, kind: string, description: string, argumentHint?: string | null}} Name */
/** By folder, as last listed. @type {import("../vendor/preact.js").Signal<Record<string, Name[]>>} */
const listed = signal({});
/** When they were asked for, by folder. @type {Map<string, number>} */
const asked = new Map();

/** Those that begin with the text, if it is nothing but the start of a name. @param {string} root @param {string} text @returns {Name[]} */
export function matching(root, text) {
  if (!isOwner.value || !/^\/\S*$/.test(text)) return [];
  load(root);
  return (listed.value[root] ?? []).filter((one) => `/${one.name}`.startsWith(text)).slice(0, MOST);
}

/** @param {string} root */
function load(root) {
  const now = Date.now();
  if (now - (asked.get(root) ?? 0) < FRESH_MS) return;
  asked.set(root, now);
  connection.request("list_commands", { rootPath: root }).then(
    (/** @type {any} */ reply) => (listed.value = { ...listed.value, [root]: reply.commands }),
    () => {}, // an older daemon, or a connection that is lost: nothing is offered
  );
}

/** @param {{names: Name[], onChoose: (name: string) => void}} props */
export function Names({ names, onChoose }) {
  if (!names.length) return null;
  return html`<ul class="names" aria-label="Commands">${names.map(
    (one) => html`<li><button type="button" onClick=${() => onChoose(one.name)}><code>/${visible(one.name)}</code> <span class="muted">${visible([one.argumentHint ?? "", one.description].filter(Boolean).join(" · "))}</span></button></li>`,
  )}</ul>`;
}
