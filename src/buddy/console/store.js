// @ts-check
/** What all views share: who is signed in, the list of sessions, the session that is open, and the place in the page. */

import { batch, computed, signal } from "./vendor/preact.js";
import { Connection } from "./connection.js";
import { SessionLog } from "./session_log.js";

/** @typedef {{sessionId: string, state: string, updatedAt: number, repo: {rootPath: string}, title?: string, mode?: string, lastSeq?: number, archived?: boolean, costUsd?: number | null, tokens?: number, context?: {used: number, limit: number} | null, waiting?: number, parent?: string, agent?: string | null}} Row */

/** @type {import("./vendor/preact.js").Signal<{role: string, sessionId: string | null, expiresAt: number | null} | null>} */
export const me = signal(null);
export const connection = new Connection(isSignedIn);
/** @type {import("./vendor/preact.js").Signal<Map<string, Row>>} */
export const rows = signal(new Map());
export const isListed = signal(false);
/** @type {import("./vendor/preact.js").Signal<SessionLog | null>} */
export const session = signal(null);
/** @type {import("./vendor/preact.js").Signal<{text: string, level: "info" | "error"} | null>} */
export const message = signal(null);
/** @type {import("./vendor/preact.js").Signal<string>} */
export const dialog = signal("");
/** @type {import("./vendor/preact.js").Signal<{name: string, sessionId: string, seq: number}>} */
export const route = signal(readRoute());
/** Changes once in a while, for times such as "5m". */
export const now = signal(Date.now());
setInterval(() => (now.value = Date.now()), 15_000);

export const isOwner = computed(() => me.value?.role === "owner");
export const mayStart = computed(() => ["owner", "user"].includes(me.value?.role ?? ""));
export const mayDrive = computed(() => ["owner", "user", "driver"].includes(me.value?.role ?? ""));
export const mayDecide = computed(() => ["owner", "user", "driver", "approver"].includes(me.value?.role ?? ""));

// --- signing in -------------------------------------------------------------------------------------------------------

/** Whether the address is a link that logs in. */
export function hasToken() {
  return new URLSearchParams(location.hash.slice(1)).has("token");
}

/** Use the link's token, or the cookie of an earlier one. Returns why neither worked. */
export async function signIn() {
  const fragment = new URLSearchParams(location.hash.slice(1));
  const token = fragment.get("token");
  if (token) {
    const to = fragment.get("to") ?? "/";
    history.replaceState(null, "", to.startsWith("/") && !to.startsWith("//") ? to : "/");
    route.value = readRoute();
    const reply = await fetch("/login", { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ token }) });
    if (reply.ok) {
      me.value = await reply.json();
      return "";
    }
    // An earlier visit may still be signed in, for which a used link is no reason to be locked out.
    if (await isSignedIn()) return "";
    return (await reply.json().catch(() => ({}))).error ?? "This link is invalid or was already used.";
  }
  return (await isSignedIn()) ? "" : "You are not signed in.";
}

async function isSignedIn() {
  const reply = await fetch("/login", { headers: { accept: "application/json" } });
  if (reply.ok) me.value = await reply.json();
  return reply.status !== 401;
}

// --- the list ---------------------------------------------------------------------------------------------------------

/** @param {Row} row */
export function putRow(row) {
  rows.value = new Map(rows.value).set(row.sessionId, { ...rows.value.get(row.sessionId), ...row });
}

/** @param {string} sessionId */
export function dropRow(sessionId) {
  const left = new Map(rows.value);
  left.delete(sessionId);
  rows.value = left;
}

export async function watchSessions() {
  const reply = await connection.request("watch_sessions", { limit: 200 });
  batch(() => {
    rows.value = new Map(reply.sessions.map((/** @type {Row} */ row) => [row.sessionId, row]));
    isListed.value = true;
  });
}

// --- places -----------------------------------------------------------------------------------------------------------

function readRoute() {
  const [, name, sessionId] = location.pathname.split("/");
  const seq = Number(location.hash.slice(1)) || 0;
  if (name === "session" && sessionId) return { name, sessionId, seq };
  return { name: name === "approvals" ? name : "inbox", sessionId: "", seq: 0 };
}

/** @param {string} path */
export function go(path) {
  if (path !== location.pathname + location.hash) history.pushState(null, "", path);
  route.value = readRoute();
}

addEventListener("popstate", () => (route.value = readRoute()));

/** Open the session of the current place, and close the one before. */
export function openSession() {
  const { sessionId, seq } = route.value;
  const open = session.peek();
  if (open?.sessionId !== sessionId) {
    open?.close();
    const known = rows.peek().get(sessionId)?.lastSeq ?? 0;
    session.value = sessionId ? new SessionLog(connection, sessionId, known) : null;
  }
  if (seq && session.peek()) lookWhenThere(/** @type {SessionLog} */ (session.peek()), seq);
}

/** @param {SessionLog} log @param {number} seq */
function lookWhenThere(log, seq) {
  if (log.isComplete.value) log.look(seq);
  else {
    const stop = log.isComplete.subscribe((isThere) => {
      if (!isThere) return;
      log.look(seq);
      queueMicrotask(() => stop());
    });
  }
}

// --- asking the daemon ------------------------------------------------------------------------------------------------

/** Send a request and say what went wrong. Null if it failed. @param {string} type @param {Record<string, any>} payload @param {string} [sessionId] @param {{repeat?: boolean}} [options] */
export async function ask(type, payload, sessionId, options) {
  try {
    return await connection.request(type, payload, sessionId, options);
  } catch (error) {
    say(error instanceof Error ? error.message : String(error), "error");
    return null;
  }
}

/** @type {ReturnType<typeof setTimeout> | undefined} */
let quiet;

/** @param {string} text @param {"info" | "error"} [level] */
export function say(text, level = "info") {
  clearTimeout(quiet);
  message.value = { text, level };
  quiet = setTimeout(() => (message.value = null), level === "error" ? 12_000 : 5_000);
}

/** An id for something that is safe to send twice. @param {string} prefix */
export function newId(prefix) {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return `${prefix}_${[...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}
