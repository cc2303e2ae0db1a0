// @ts-check
/**
 * Text from outside, made safe to look at, and figures in words.
 *
 * Invariant: what no text may bring to a screen is spelled out here exactly as in the terminal (`buddy/characters.py`).
 */

// Controls, half surrogates, and what is drawn as nothing or changes the direction of what follows.
const CONTROLS = "\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f";
const SURROGATES = "\\ud800-\\udfff";
const HIDDEN =
  "\\xad\\u034f\\u061c\\u115f\\u1160\\u17b4\\u17b5\\u180b-\\u180f\\u200b\\u200e\\u200f\\u2028-\\u202e\\u2060-\\u206f\\u3164" +
  "\\ufeff\\uffa0\\ufff0-\\ufffb\\u{13430}-\\u{1345f}\\u{16fe4}\\u{1bca0}-\\u{1bca3}\\u{1d159}\\u{1d173}-\\u{1d17a}" +
  "\\u{e0000}-\\u{e0fff}";
// Emoji and some scripts need the first; the others look like a space, or like anything at all.
const JOINERS = "\\u200c\\u200d\\ufe00-\\ufe0f";
const BLANKS = "\\xa0\\u1680\\u2000-\\u200a\\u202f\\u205f\\u2800\\u3000";
const PRIVATE = "\\ue000-\\uf8ff\\u{f0000}-\\u{10ffff}";

const UNSAFE = new RegExp(`[${CONTROLS}${SURROGATES}${HIDDEN}]`, "gu");
const DECEPTIVE = new RegExp(`[${CONTROLS}${SURROGATES}${HIDDEN}${JOINERS}${BLANKS}${PRIVATE}]`, "gu");
// Of a progress bar every state is shown: text that only the model sees could deceive.
const LINE_ENDS = /\r+\n?/g;
const COLOURS = /\x1b\[[0-9;:]*m/g;

/** @param {string} text What no text may bring to a screen is spelled out. */
export function visible(text) {
  return text.replace(UNSAFE, spell);
}

/** @param {string} text The same for text that somebody decides on: different words never look the same. */
export function exact(text) {
  return text.replace(DECEPTIVE, spell);
}

/** @param {string} text The output of a program: its colours are dropped, what it overwrites is a line, everything else is visible. */
export function output(text) {
  return visible(text.replace(COLOURS, "").replace(LINE_ENDS, "\n"));
}

/** @param {string} text The output of a program. */
export function countLines(text) {
  return text.replace(LINE_ENDS, "\n").split("\n").length;
}

/** @param {string} character */
export function spell(character) {
  const code = /** @type {number} */ (character.codePointAt(0));
  if (code < 0x100) return `\\x${code.toString(16).padStart(2, "0")}`;
  return code < 0x10000 ? `\\u${code.toString(16).padStart(4, "0")}` : `\\U${code.toString(16).padStart(8, "0")}`;
}

/** @param {string} text @param {number} most The beginning, cut between characters. */
export function cut(text, most) {
  const flat = text.length > most * 4 ? text.slice(0, most * 4) : text;
  const characters = [...flat];
  return characters.length <= most && flat.length === text.length ? text : `${characters.slice(0, most - 1).join("")}…`;
}

/** @param {number} amount @param {string} noun */
export function plural(amount, noun) {
  return `${amount.toLocaleString("en")} ${noun}${amount === 1 ? "" : "s"}`;
}

/** @param {number | null | undefined} cost */
export function money(cost) {
  if (cost == null) return "";
  return cost >= 1 ? `$${cost.toFixed(2)}` : `$${cost.toFixed(4)}`;
}

/** @param {number} amount */
export function tokens(amount) {
  if (amount < 1000) return `${amount}`;
  return amount < 1_000_000 ? `${(amount / 1000).toFixed(amount < 10_000 ? 1 : 0)}k` : `${(amount / 1_000_000).toFixed(1)}M`;
}

/** @param {number} ms */
export function duration(ms) {
  const seconds = ms / 1000;
  if (seconds < 10) return `${seconds.toFixed(1)}s`;
  if (seconds < 60) return `${Math.round(seconds)}s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes}m ${Math.floor(seconds % 60)}s`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours}h ${minutes % 60}m` : `${Math.floor(hours / 24)}d`;
}

/** @param {number} ts @param {number} now Such as "5m ago". */
export function ago(ts, now) {
  const seconds = Math.max(0, (now - ts) / 1000);
  if (seconds < 60) return "now";
  if (seconds < 3600) return `${Math.floor(seconds / 60)}m`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)}h`;
  return seconds < 86400 * 14 ? `${Math.floor(seconds / 86400)}d` : new Date(ts).toLocaleDateString();
}

/** @param {number} ts */
export function clock(ts) {
  return new Date(ts).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit" });
}

/** @param {string} path */
export function baseName(path) {
  return path.replace(/\/+$/, "").split("/").pop() || path;
}

/** @type {Record<string, string>} */
export const STATE_WORDS = {
  awaiting_approval: "needs you",
  running: "running",
  idle: "idle",
  completed: "done",
  failed: "failed",
  cancelled: "cancelled",
};
