// @ts-check
/**
 * What an approval shows: the same lines, and the same words for a rule, as in the terminal
 * (`buddy/terminal/approval_screen.py`, `approval_prompt.py`), which are tested with the same cases; the page wraps them
 * itself.
 *
 * Invariants: every line is one row with a frame; runs of blanks are folded with a count; what was asked can imitate
 * neither a frame nor a fold.
 */

import { exact } from "./text.js";

/** @typedef {{kind: "command" | "diff" | "fact" | "fold", text: string}} AskedLine */

const FOLDED_LINES = 3;
const TAB = 4;
const FOLDED_BLANKS = / {32,}/g;
// What Python calls a space, quotes and the backslash.
const AMBIGUOUS = /[\s\x1c-\x1f\x85'"`\\]/;
// Digests and sizes bind the decision; people read the command or the diff instead.
const HIDDEN = new Set(["command", "diff", "why", "alwaysRule", "scripts", "scriptTexts", "scriptsComplete", "sha256", "replaces", "bytes"]);
/** @type {Record<string, string>} */
const LABELS = { uncovered: "undo" };
/** @type {Record<string, string>} */
const PLACES = { "target local": "on this machine", "sandbox host": "no sandbox" };
const PLACE_WORDS = [["cwd", "in"], ["target", "on"], ["sandbox", "sandbox"]];

/** What would run or change. @param {any} request @returns {AskedLine[]} */
export function actionLines(request) {
  const { command, diff } = request.details;
  if (typeof command === "string") return rows(command, "command");
  if (typeof diff === "string" && diff) return rows(diff.replace(/\n$/, ""), "diff");
  return rows(request.summary, "command");
}

/** Everything else that is known of it. @param {any} request @returns {[string, string][]} */
export function facts(request) {
  const details = request.details;
  /** @type {[string, string][]} */
  const found = [];
  const places = PLACE_WORDS.filter(([key]) => details[key]).map(([key, word]) => PLACES[`${key} ${details[key]}`] ?? `${word} ${flat(String(details[key]))}`);
  if (places.length) found.push(["where", places.join(" · ")]);
  if (details.why) found.push(["why", flat(String(details.why))]);
  for (const [key, value] of Object.entries(details)) {
    if (HIDDEN.has(key) || PLACE_WORDS.some(([place]) => place === key) || isEmpty(value)) continue;
    found.push([LABELS[key] ?? flat(key), flat(typeof value === "string" ? value : JSON.stringify(value))]);
  }
  const scripts = Object.keys(details.scripts ?? {});
  if (scripts.length) found.push(["runs", flat(scripts.join(", "))]);
  if (details.scriptsComplete === false) found.push(["note", "it may run scripts that could not be read"]);
  return found;
}

/** The scripts that a command runs. @param {any} request @returns {{path: string, lines: AskedLine[]}[]} */
export function scripts(request) {
  return Object.entries(request.details.scriptTexts ?? {}).map(([path, text]) => ({
    path: flat(path),
    lines: rows(String(text).replace(/\n+$/, ""), "command"),
  }));
}

/** A rule in words: allow `git status` on this machine. @param {any} rule */
export function ruleText(rule) {
  if (typeof rule !== "object" || Array.isArray(rule)) return exact(word(rule));
  const { decision = "allow", tool, argv = [], path, host, network, workspace, cwd, target, definition, scripts = [], ...rest } = withoutNulls(rule);
  const where = [workspace, cwd].filter((part) => part !== undefined);
  const files = scripts.map((/** @type {string} */ line) => quote(line.slice(line.indexOf("  ") + 2)));
  const words = [
    decision,
    tool !== undefined && !(tool === "run_shell" && argv.length) ? word(tool) : "",
    argv.length ? `\`${argv.map(quote).join(" ")}\`` : "",
    ...[path, host].filter((name) => name !== undefined).map((name) => quote(word(name))),
    network === undefined ? "" : network ? "with network" : "without network",
    definition ? "with any arguments, while its definition is unchanged" : "",
    ...Object.entries(rest).map(([name, value]) => `${name} = ${JSON.stringify(value)}`),
    where.length ? `in ${quote(where.map(word).join("/"))}` : "",
    target === undefined ? "" : target === "local" ? "on this machine" : `on ${word(target)}`,
    files.length ? `while unchanged: ${files.join(", ")}` : "",
  ];
  return exact(words.filter(Boolean).join(" "));
}

/** @param {Record<string, any>} rule @returns {Record<string, any>} */
function withoutNulls(rule) {
  return Object.fromEntries(Object.entries(rule).filter(([, value]) => value !== null));
}

/** As it is, unless a reader could not tell where it ends. @param {string} text */
function quote(text) {
  return text && !AMBIGUOUS.test(text) ? text : JSON.stringify(text);
}

/** @param {any} value */
function word(value) {
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** @param {string} text @param {"command" | "diff"} kind @returns {AskedLine[]} */
export function rows(text, kind) {
  /** @type {AskedLine[]} */
  const found = [];
  /** @type {string[]} */
  let blanks = [];
  const endBlanks = () => {
    if (blanks.length >= FOLDED_LINES) found.push(foldLine(blanks.length, "blank line"));
    else for (const line of blanks) found.push(...foldSpaces(line, kind));
    blanks = [];
  };
  for (const line of text.split("\n").map((line) => expandTabs(exact(line)))) {
    if (line.trim()) {
      endBlanks();
      found.push(...foldSpaces(line, kind));
    } else {
      blanks.push(line);
    }
  }
  endBlanks();
  return found;
}

/** @param {string} line @param {"command" | "diff"} kind @returns {AskedLine[]} */
function foldSpaces(line, kind) {
  /** @type {AskedLine[]} */
  const found = [];
  let at = 0;
  for (const run of line.matchAll(FOLDED_BLANKS)) {
    if (run.index > at) found.push({ kind, text: line.slice(at, run.index) });
    found.push(foldLine(run[0].length, "space"));
    at = run.index + run[0].length;
  }
  if (at < line.length || !at) found.push({ kind, text: line.slice(at) });
  return found;
}

/** @param {string} line */
function expandTabs(line) {
  if (!line.includes("\t")) return line;
  const [first, ...rest] = line.split("\t");
  return rest.reduce((before, part) => before + " ".repeat(TAB - ([...before].length % TAB)) + part, first);
}

/** @param {number} count @param {string} what @returns {AskedLine} */
function foldLine(count, what) {
  return { kind: "fold", text: `… ${count} ${what}${count === 1 ? "" : "s"}` };
}

/** @param {string} text */
function flat(text) {
  return exact(text).replaceAll("\n", "\\n").replaceAll("\t", "\\t");
}

/** @param {any} value */
function isEmpty(value) {
  if (value === "" || value == null || value === false || value === true) return true;
  return typeof value === "object" && !Object.keys(value).length;
}
