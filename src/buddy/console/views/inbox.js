// @ts-check
/** All sessions over all projects: who waits first, then who runs, what has ended since it was looked at, and the rest. */

import { html, signal } from "../vendor/preact.js";
import { isNotifying, toggleNotifications } from "../attention.js";
import { unread } from "../reading.js";
import { ask, dialog, dropRow, go, isListed, mayDrive, mayStart, now, route, rows, say } from "../store.js";
import { STATE_WORDS, ago, baseName, money, visible } from "../text.js";
import { Icon } from "./icon.js";

/** @typedef {import("../store.js").Row} Row */

const query = signal("");
const project = signal("");
const isArchive = signal(false);
const shown = signal(100);
const notifying = signal(isNotifying());

const GROUPS = ["Needs you", "Running", "Finished since you looked", "Earlier"];

export function Inbox() {
  const matching = [...rows.value.values()].filter(matches).sort((a, b) => b.updatedAt - a.updatedAt);
  const waiting = [...rows.value.values()].filter((row) => row.state === "awaiting_approval").length;
  return html`
    <header class="inbox-head">
      <a class="brand" href="/" onClick=${follow("/")}>Buddy</a>
      <a class=${`chip link ${waiting ? "waiting" : ""}`} href="/approvals" onClick=${follow("/approvals")}>
        ${waiting ? `${waiting} waiting` : "Approvals"}
      </a>
      <button class="quiet" aria-pressed=${notifying.value} title="Notify me when a session needs me or finishes" onClick=${notify}>
        <${Icon} name=${notifying.value ? "bell" : "bell-off"} /><span class="hidden">Notifications</span>
      </button>
      ${mayStart.value ? html`<button class="primary" onClick=${() => (dialog.value = "start")}>New</button>` : null}
    </header>
    <div class="filters">
      <input id="search" type="search" placeholder="Search sessions" aria-label="Search sessions" value=${query.value}
        onInput=${(/** @type {any} */ event) => (query.value = event.target.value)} />
      <select aria-label="Project" value=${project.value} onChange=${(/** @type {any} */ event) => (project.value = event.target.value)}>
        <option value="">All projects</option>
        ${projects().map((root) => html`<option value=${root} title=${root}>${visible(baseName(root))}</option>`)}
      </select>
      <label class="check"><input type="checkbox" checked=${isArchive.value} onChange=${showArchive} /> Archived</label>
    </div>
    <div class="rows">
      ${GROUPS.map((name, group) => html`<${Group} name=${name} rows=${matching.slice(0, shown.value).filter((row) => groupOf(row) === group)} />`)}
      ${matching.length > shown.value
        ? html`<button class="more" onClick=${() => (shown.value += 200)}>Show more (${matching.length - shown.value})</button>`
        : null}
      ${matching.length ? null : html`<p class="muted empty">${empty()}</p>`}
    </div>
  `;
}

function empty() {
  if (!isListed.value) return "Loading…";
  return rows.value.size ? "No session matches." : "No sessions yet.";
}

/** @param {{name: string, rows: Row[]}} props */
function Group({ name, rows }) {
  if (!rows.length) return null;
  return html`<section><h2>${name} <span class="count">${rows.length}</span></h2><ul>${rows.map((row) => html`<${SessionRow} key=${row.sessionId} row=${row} />`)}</ul></section>`;
}

/** @param {{row: Row}} props */
function SessionRow({ row }) {
  const isOpen = route.value.sessionId === row.sessionId;
  const path = `/session/${row.sessionId}`;
  const facts = [visible(baseName(row.repo.rootPath)), ago(row.updatedAt, now.value), money(row.costUsd), fill(row)].filter(Boolean);
  return html`<li class=${`row ${isOpen ? "open" : ""} ${unread(row) ? "unread" : ""}`}>
    <a class="row-link" href=${path} aria-current=${isOpen ? "page" : null} onClick=${follow(path)}>
      <span class=${`dot ${row.state}`} aria-hidden="true"></span>
      <span class="row-title">${row.agent ? html`<span class="chip agent">${visible(row.agent)}</span> ` : null}${visible(row.title || "Untitled session")}</span>
      <span class="row-state">${STATE_WORDS[row.state] ?? row.state}</span>
      <span class="row-facts" title=${visible(row.repo.rootPath)}>${facts.join(" · ")}</span>
    </a>
    ${mayDrive.value ? html`<${RowMenu} row=${row} />` : null}
  </li>`;
}

/** @param {{row: Row}} props */
function RowMenu({ row }) {
  return html`<details class="menu" onToggle=${closeOthers}>
    <summary aria-label=${`Actions for ${visible(row.title || "session")}`}>⋯</summary>
    <div class="menu-items" onClick=${closeMenu}>
      <button onClick=${() => rename(row)}>Rename…</button>
      <button onClick=${() => archive(row)}>${row.archived ? "Unarchive" : "Archive"}</button>
      <button class="danger" onClick=${() => remove(row)}>Delete…</button>
    </div>
  </details>`;
}

/** @param {any} event */
export function closeOthers(event) {
  if (!event.target.open) return;
  for (const menu of document.querySelectorAll("details.menu[open]")) if (menu !== event.target) menu.removeAttribute("open");
}

/** @param {any} event */
export function closeMenu(event) {
  event.currentTarget.closest("details").removeAttribute("open");
}

/** @param {Row} row */
export async function rename(row) {
  const title = prompt("Title of the session", row.title ?? "");
  if (title?.trim()) await ask("rename_session", { title: title.trim() }, row.sessionId);
}

/** @param {Row} row */
export async function archive(row) {
  const done = await ask("archive_session", { archived: !row.archived }, row.sessionId);
  if (done) say(row.archived ? "Unarchived" : "Archived");
}

/** @param {Row} row */
export async function remove(row) {
  if (!confirm(`Delete “${visible(row.title || row.sessionId)}” and its whole log? This cannot be undone.`)) return;
  const done = await ask("delete_session", {}, row.sessionId);
  if (!done) return;
  dropRow(row.sessionId);
  if (route.value.sessionId === row.sessionId) go("/");
}

/** @param {Row} row */
function groupOf(row) {
  if (row.state === "awaiting_approval") return 0;
  if (row.state === "running") return 1;
  return unread(row) ? 2 : 3;
}

/** @param {Row} row */
function matches(row) {
  if (Boolean(row.archived) !== isArchive.value) return false;
  if (project.value && row.repo.rootPath !== project.value) return false;
  const words = query.value.toLowerCase().split(/\s+/).filter(Boolean);
  const text = `${row.title ?? ""} ${row.repo.rootPath} ${row.sessionId} ${STATE_WORDS[row.state] ?? ""}`.toLowerCase();
  return words.every((word) => text.includes(word));
}

function projects() {
  return [...new Set([...rows.value.values()].map((row) => row.repo.rootPath))].sort();
}

/** @param {Row} row */
function fill(row) {
  return row.context?.limit ? `${Math.round((100 * row.context.used) / row.context.limit)}% context` : "";
}

/** @param {any} event */
async function showArchive(event) {
  isArchive.value = event.target.checked;
  if (!isArchive.value) return;
  const reply = await ask("list_sessions", { archived: true, limit: 200 });
  if (reply) rows.value = new Map([...rows.value, ...reply.sessions.map((/** @type {Row} */ row) => [row.sessionId, row])]);
}

async function notify() {
  notifying.value = await toggleNotifications();
  say(notifying.value ? "You will be notified when a session needs you or finishes." : "Notifications are off.");
}

/** @param {string} path */
export function follow(path) {
  return (/** @type {MouseEvent} */ event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
    event.preventDefault();
    go(path);
  };
}
