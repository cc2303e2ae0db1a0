// @ts-check
/** Unified diffs as rows: one per line, with the numbers on both sides. */

/**
 * @typedef {{kind: "add" | "remove" | "same" | "hunk" | "file", text: string, old: number | null, new: number | null}} DiffRow
 * @typedef {{left: DiffRow | null, right: DiffRow | null, wide: DiffRow | null}} DiffPair
 */

const HUNK = /^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@/;
const HEADERS = /^(?:diff |index |new file|deleted file|old mode|new mode|similarity |rename |copy |Binary files )/;

/** @param {string} text @returns {DiffRow[]} */
export function diffRows(text) {
  /** @type {DiffRow[]} */
  const rows = [];
  let before = 0;
  let after = 0;
  let isInHunk = false;
  for (const line of text.replace(/\n$/, "").split("\n")) {
    const hunk = HUNK.exec(line);
    if (hunk) {
      [before, after, isInHunk] = [Number(hunk[1]), Number(hunk[2]), true];
      rows.push({ kind: "hunk", text: line, old: null, new: null });
    } else if (!isInHunk || HEADERS.test(line)) {
      isInHunk &&= !HEADERS.test(line);
      rows.push({ kind: "file", text: line, old: null, new: null });
    } else if (line.startsWith("+")) {
      rows.push({ kind: "add", text: line.slice(1), old: null, new: after++ });
    } else if (line.startsWith("-")) {
      rows.push({ kind: "remove", text: line.slice(1), old: before++, new: null });
    } else if (line.startsWith("\\")) {
      rows.push({ kind: "file", text: line, old: null, new: null });
    } else {
      rows.push({ kind: "same", text: line.slice(1), old: before++, new: after++ });
    }
  }
  return rows;
}

/** Rows next to each other: what was removed, and what came in its place. @param {DiffRow[]} rows @returns {DiffPair[]} */
export function sideBySide(rows) {
  /** @type {DiffPair[]} */
  const pairs = [];
  for (let at = 0; at < rows.length; ) {
    const row = rows[at];
    if (row.kind === "hunk" || row.kind === "file") {
      pairs.push({ left: null, right: null, wide: row });
      at += 1;
    } else if (row.kind === "same") {
      pairs.push({ left: row, right: row, wide: null });
      at += 1;
    } else {
      const removed = takeWhile(rows, at, "remove");
      const added = takeWhile(rows, at + removed.length, "add");
      for (let offset = 0; offset < Math.max(removed.length, added.length); offset++) {
        pairs.push({ left: removed[offset] ?? null, right: added[offset] ?? null, wide: null });
      }
      at += removed.length + added.length;
    }
  }
  return pairs;
}

/** @param {DiffRow[]} rows @param {number} at @param {string} kind */
function takeWhile(rows, at, kind) {
  let end = at;
  while (end < rows.length && rows[end].kind === kind) end += 1;
  return rows.slice(at, end);
}
