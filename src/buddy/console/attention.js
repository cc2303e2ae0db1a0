// @ts-check
/** The title, the icon and, if asked for, a notification say what waits. */

import { effect } from "./vendor/preact.js";
import { unread } from "./reading.js";
import { go, rows } from "./store.js";
import { visible } from "./text.js";

const KEY = "buddy.notify";
/** @type {Map<string, string>} */
const before = new Map();

export function isNotifying() {
  return "Notification" in window && Notification.permission === "granted" && localStorage.getItem(KEY) === "on";
}

/** Turn notifications on or off; the browser asks the first time. */
export async function toggleNotifications() {
  if (isNotifying()) {
    localStorage.setItem(KEY, "off");
    return false;
  }
  if (!("Notification" in window) || (await Notification.requestPermission()) !== "granted") return false;
  localStorage.setItem(KEY, "on");
  return true;
}

export function watchAttention() {
  effect(() => {
    const all = [...rows.value.values()].filter((row) => !row.archived);
    const waiting = all.filter((row) => row.state === "awaiting_approval").length;
    const isRunning = all.some((row) => row.state === "running");
    const finished = all.filter(unread).length;
    document.title = waiting ? `(${waiting}) Needs you · Buddy` : finished ? `(${finished}) Finished · Buddy` : isRunning ? "Running · Buddy" : "Buddy";
    const icon = waiting ? "/favicon-waiting.svg" : isRunning ? "/favicon-running.svg" : "/favicon.svg";
    const link = /** @type {HTMLLinkElement} */ (document.getElementById("favicon"));
    if (!link.href.endsWith(icon)) link.href = icon;
    for (const row of all) notice(row);
  });
}

/** @param {import("./store.js").Row} row */
function notice(row) {
  const was = before.get(row.sessionId);
  before.set(row.sessionId, row.state);
  if (was === undefined || was === row.state || document.visibilityState === "visible" || !isNotifying()) return;
  const isWaiting = row.state === "awaiting_approval";
  if (!isWaiting && was !== "running" && was !== "awaiting_approval") return;
  if (row.state === "running") return;
  const name = visible(row.title || row.sessionId);
  const shown = new Notification(isWaiting ? "Buddy needs you" : "Buddy is done", { body: name, tag: row.sessionId });
  shown.onclick = () => {
    window.focus();
    go(`/session/${row.sessionId}`);
  };
}
