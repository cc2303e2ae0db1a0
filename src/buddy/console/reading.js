// @ts-check
/** What this browser has looked at: a session that ended since then is marked. */

import { signal } from "./vendor/preact.js";

const KEY = "buddy.seen";
const MOST = 500;

/** @type {import("./vendor/preact.js").Signal<Record<string, number>>} */
export const seen = signal(read());

function read() {
  try {
    return JSON.parse(localStorage.getItem(KEY) ?? "{}");
  } catch {
    return {};
  }
}

/** @param {string} sessionId @param {number} seq */
export function markSeen(sessionId, seq) {
  if (!seq || (seen.peek()[sessionId] ?? 0) >= seq) return;
  const entries = Object.entries({ ...seen.peek(), [sessionId]: seq }).slice(-MOST);
  seen.value = Object.fromEntries(entries);
  localStorage.setItem(KEY, JSON.stringify(seen.value));
}

/** Whether a session has ended since it was looked at. @param {import("./store.js").Row} row */
export function unread(row) {
  if (row.state === "running" || row.state === "awaiting_approval") return false;
  const last = seen.value[row.sessionId];
  return last !== undefined && (row.lastSeq ?? 0) > last;
}
