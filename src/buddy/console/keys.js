// @ts-check
/**
 * The keyboard. Letters act only while nobody is typing; none of them decides: `a` and `d` only move to a button that has
 * to be pressed.
 */

import { dialog, go, mayStart, route, session } from "./store.js";

export const KEYS = [
  ["j / k", "next, previous session or entry"],
  ["Enter", "open the selected session"],
  ["/", "search sessions"],
  ["n", "new session"],
  ["i", "write a message"],
  ["a / d", "focus Approve or Deny; Enter confirms"],
  ["t", "time travel on and off"],
  ["← / →", "in time travel: previous, next event"],
  ["[ / ]", "in time travel: previous, next mark"],
  ["c", "changes of the session"],
  ["g", "all approvals"],
  ["u", "back to the list"],
  ["?", "this help"],
  ["Esc", "close, or leave the input"],
];

/** @param {EventTarget | null} target */
function isTyping(target) {
  return target instanceof HTMLElement && (target.isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(target.tagName));
}

/** @param {string} selector */
function focus(selector) {
  const found = /** @type {HTMLElement | null} */ (document.querySelector(selector));
  found?.focus();
  found?.scrollIntoView({ block: "nearest" });
  return Boolean(found);
}

/** Move the focus among elements. @param {string} selector @param {number} step */
function step(selector, step) {
  const all = /** @type {HTMLElement[]} */ ([...document.querySelectorAll(selector)]);
  if (!all.length) return;
  const at = all.findIndex((element) => element.contains(document.activeElement));
  const next = all[at < 0 ? (step > 0 ? 0 : all.length - 1) : Math.min(Math.max(at + step, 0), all.length - 1)];
  next.focus();
  next.scrollIntoView({ block: "nearest" });
}

/** @param {string} name A press of an element's own button. */
function press(name) {
  /** @type {HTMLElement | null} */ (document.querySelector(`[data-key="${name}"]`))?.click();
}

/** @type {Record<string, () => unknown>} */
const ACTIONS = {
  "/": () => focus("#search") || (go("/"), setTimeout(() => focus("#search"))),
  "?": () => (dialog.value = "help"),
  n: () => mayStart.value && (dialog.value = "start"),
  g: () => go("/approvals"),
  u: () => go("/"),
  i: () => focus("#composer"),
  t: () => press("travel"),
  c: () => press("changes"),
  a: () => focus('[data-decide="approve"]'),
  d: () => focus('[data-decide="deny"]'),
  "[": () => press("mark-before"),
  "]": () => press("mark-after"),
  j: () => step(route.value.name === "inbox" ? ".row-link" : ".entry", 1),
  k: () => step(route.value.name === "inbox" ? ".row-link" : ".entry", -1),
};

export function listenForKeys() {
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    if (event.key === "Escape") {
      if (isTyping(event.target)) /** @type {HTMLElement} */ (event.target).blur();
      return;
    }
    if (isTyping(event.target) || dialog.value) return;
    const log = session.value;
    if (log?.at.value && (event.key === "ArrowLeft" || event.key === "ArrowRight")) {
      log.look(log.at.value + (event.key === "ArrowLeft" ? -1 : 1));
      event.preventDefault();
      return;
    }
    const action = ACTIONS[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  });
}
