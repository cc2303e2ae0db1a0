// Runs the console's pure functions for the tests: one JSON request per line in, one JSON reply per line out.
import { createInterface } from "node:readline";
import { actionLines, facts, rows, ruleText, scripts } from "../../src/buddy/console/approval_lines.js";
import { diffRows, sideBySide } from "../../src/buddy/console/diff.js";
import { apply, emptyView } from "../../src/buddy/console/fold.js";
import { cut, exact, output, visible } from "../../src/buddy/console/text.js";

function plain(value) {
  if (value instanceof Map) return Object.fromEntries([...value].map(([key, inner]) => [key, plain(inner)]));
  if (Array.isArray(value)) return value.map(plain);
  if (value && typeof value === "object") return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, plain(inner)]));
  return value;
}

const CALLS = {
  view(events) {
    const view = emptyView();
    const applied = events.map((event) => apply(view, event));
    return { applied, view: plain(view) };
  },
  visible: (texts) => texts.map(visible),
  exact: (texts) => texts.map(exact),
  output: (texts) => texts.map(output),
  cut: ([text, most]) => cut(text, most),
  asked: (request) => ({ action: actionLines(request), facts: facts(request), scripts: scripts(request) }),
  rules: (rules) => rules.map(ruleText),
  rows: ([text, kind]) => rows(text, kind),
  diff: (text) => ({ rows: diffRows(text), pairs: sideBySide(diffRows(text)) }),
};

for await (const line of createInterface({ input: process.stdin })) {
  const { call, with: given } = JSON.parse(line);
  console.log(JSON.stringify(CALLS[call](given)));
}
