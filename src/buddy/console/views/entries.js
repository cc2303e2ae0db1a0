// @ts-check
/**
 * One row of the timeline, by kind. A row is drawn again only when its item has changed; since items change in place,
 * whatever draws one gets its version, too.
 */

import { Component, html, signal } from "../vendor/preact.js";
import { markdown } from "../markdown.js";
import { ask, go } from "../store.js";
import { clock, countLines, cut, duration, money, output, plural, tokens, visible } from "../text.js";
import { Approval } from "./approval.js";
import { Question } from "./question.js";
import { Diff } from "./diff_view.js";
import { follow } from "./inbox.js";

const PREVIEW_LINES = 8;
const BLOB_PART = 262_144;
const MAX_SHOWN = 400_000;

/** What was unfolded stays so when its row leaves the page and comes back. @type {import("../vendor/preact.js").Signal<Set<string>>} */
const unfolded = signal(new Set());
/** @type {import("../vendor/preact.js").Signal<Map<string, string>>} */
const loaded = signal(new Map());

/** @typedef {import("../fold.js").Item} Item */
/** @typedef {{item: Item, version: number, log: import("../session_log.js").SessionLog, isPast: boolean}} Props */

export class Entry extends Component {
  /** @param {Props} next */
  shouldComponentUpdate(next) {
    const { item, version, isPast } = /** @type {Props} */ (this.props);
    return next.item !== item || next.version !== version || next.isPast !== isPast;
  }

  /** @param {Props} props */
  render({ item, log, isPast }) {
    const draw = KINDS[item.kind] ?? KINDS.note;
    return html`<article class=${`entry ${item.kind} ${item.level ?? ""}`} tabindex="-1" id=${`event-${item.seq}`} aria-label=${LABELS[item.kind] ?? null}>
      <a class="anchor" href=${`/session/${log.sessionId}#${item.seq}`} title=${`${new Date(item.ts).toLocaleString()} · look at this point`} onClick=${lookAt(log, item.seq)}>${clock(item.ts)}</a>
      ${draw({ item, log, isPast })}
    </article>`;
  }
}

/** @type {Record<string, string>} */
const LABELS = { user: "Message", reply: "Reply", call: "Tool call", end: "End of the run", check: "Acceptance check" };

/** @param {import("../session_log.js").SessionLog} log @param {number} seq */
function lookAt(log, seq) {
  return (/** @type {MouseEvent} */ event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    go(`/session/${log.sessionId}#${seq}`);
    log.look(seq);
  };
}

/** @type {Record<string, (props: {item: Item, log: any, isPast: boolean}) => any>} */
const KINDS = {
  user: ({ item }) => html`<div class="bubble">
    <p class="who">${item.by === "console" ? "You" : visible(item.by)}${item.steers ? " · steering" : ""}</p>
    ${(item.images ?? []).map((/** @type {{name: string, mediaType: string}} */ image) => html`<p class="muted">image: ${visible(image.name || image.mediaType)}</p>`)}
    <div class="said">${visible(item.text)}</div>
  </div>`,
  reply: ({ item, log }) => html`<div class="reply-body">
    ${item.thinking ? html`<${Thinking} item=${item} version=${item.version} />` : null}
    <div class="markdown">${markdown(item.text)}</div>
    ${item.truncated ? html`<p class="warn">The reply was cut off before it was complete.</p>` : null}
    <${Whole} blobs=${item.blobs} field="/text" log=${log} />
  </div>`,
  call: ({ item, log, isPast }) => html`<${Call} item=${item} version=${item.version} log=${log} isPast=${isPast} />`,
  question: ({ item, log, isPast }) => html`<${Question} item=${item} version=${item.version} sessionId=${item.sessionId ?? log.sessionId} isPast=${isPast} />`,
  approval: ({ item, log, isPast }) => html`<${Decision} item=${item} version=${item.version} log=${log} isPast=${isPast} />`,
  // Of a sub-agent; its row is none of this session's log.
  asked: ({ item, log, isPast }) => html`<${Decision} item=${item} version=${item.version} log=${log} isPast=${isPast} />`,
  note: ({ item }) => html`<div class="note-body"><p>${SIGNS[item.level] ?? ""} ${visible(item.text)}</p>${item.detail ? html`<details><summary>More</summary><p class="said">${visible(item.detail)}</p></details>` : null}</div>`,
  child: ({ item }) => html`<div class="note-body"><p>${item.outcome && item.outcome !== "success" ? "✗" : item.outcome ? "✓" : "▸"} Sub-agent <a href=${`/session/${item.child}`} onClick=${follow(`/session/${item.child}`)}>${visible(item.agent)}</a> ${CHILD_WORDS[item.outcome] ?? item.outcome}</p></div>`,
  gap: ({ item }) => html`<div class="note-body"><p>⋯ Events were pruned or lost here. ${visible(item.text)}</p></div>`,
  check: ({ item }) => html`<div class="note-body"><p class=${item.passed ? "ok" : "bad"}>${item.passed ? "✓" : "✗"} Check ${visible(item.name)} ${item.passed ? "passed" : `failed (exit code ${item.exitCode})`}</p>
    ${item.output ? html`<details><summary>Output</summary><pre class="output" tabindex="0">${output(item.output)}</pre></details>` : null}</div>`,
  end: ({ item }) => html`<${End} item=${item} version=${item.version} />`,
};

/** @type {Record<string, string>} */
const CHILD_WORDS = { "": "is working", success: "finished", failed: "failed", denied: "was denied", cancelled: "was cancelled" };
/** @type {Record<string, string>} */
const SIGNS = { info: "·", warn: "!", error: "✗" };

/** @param {{item: Item}} props */
function Thinking({ item }) {
  const isOpen = unfolded.value.has(`${item.key}-thinking`);
  return html`<div class="thinking">
    <button class="fold" aria-expanded=${isOpen} onClick=${() => toggle(`${item.key}-thinking`)}>Reasoning${item.isOpen ? "…" : ""}</button>
    ${isOpen ? html`<div class="said">${visible(item.thinking)}</div>` : null}
  </div>`;
}

/** @param {{item: Item, log: any, isPast: boolean}} props */
function Call({ item, log, isPast }) {
  const isOpen = unfolded.value.has(item.key);
  const facts = [item.exitCode === null || item.exitCode === 0 ? "" : `exit ${item.exitCode}`, item.durationMs === null ? "" : duration(item.durationMs)].filter(Boolean);
  return html`<div class=${`call-body ${item.state}`}>
    <button class="call-head" aria-expanded=${isOpen} onClick=${() => toggle(item.key)}>
      <span class=${`sign ${item.state}`} aria-hidden="true">${CALL_SIGNS[item.state] ?? "·"}</span>
      <span class="call-name">${visible(item.name)}</span>
      <code class="call-subject">${visible(cut(subject(item), 300))}</code>
      <span class="call-facts">${[CALL_WORDS[item.state] ?? "", ...facts].filter(Boolean).join(" · ")}</span>
    </button>
    ${item.approval ? html`<${Decision} item=${item} version=${item.version} log=${log} isPast=${isPast} />` : null}
    ${isOpen ? html`<${Unfolded} item=${item} version=${item.version} log=${log} />` : html`<${Preview} item=${item} version=${item.version} />`}
  </div>`;
}

/** @type {Record<string, string>} */
const CALL_SIGNS = { open: "○", waiting: "?", approved: "◔", running: "◔", done: "✓", failed: "✗", denied: "⊘", unknown: "?", ended: "■" };
/** @type {Record<string, string>} */
const CALL_WORDS = { waiting: "needs you", running: "running", approved: "approved", failed: "failed", denied: "denied", unknown: "outcome unknown", ended: "ended" };

/** @param {Item} item */
function subject(item) {
  const args = item.args ?? {};
  return String(args.command ?? args.path ?? args.url ?? args.query ?? args.pattern ?? (Object.keys(args).length ? JSON.stringify(args) : "")).replaceAll("\n", " ⏎ ");
}

/** The end of what a running command writes, or the beginning of a result. @param {{item: Item}} props */
function Preview({ item }) {
  if (item.output) return html`<pre class="output live" tabindex="0">${output(item.output).split("\n").slice(-PREVIEW_LINES).join("\n")}</pre>`;
  const diff = changeOf(item);
  if (diff && item.state !== "waiting") return html`<${Diff} text=${diff} most=${PREVIEW_LINES} />`;
  const text = resultText(item);
  if (!text.trim()) return null;
  const lines = output(text.slice(0, 20_000)).split("\n");
  const left = countLines(text) - PREVIEW_LINES;
  return html`<pre class="output" tabindex="0">${lines.slice(0, PREVIEW_LINES).map((line) => cut(line, 400)).join("\n")}</pre>
    ${left > 0 ? html`<button class="fold" onClick=${() => toggle(item.key)}>${plural(left, "more line")}</button>` : null}`;
}

/** @param {{item: Item, log: any}} props */
function Unfolded({ item, log }) {
  const diff = changeOf(item);
  const args = Object.entries(item.args ?? {}).filter(([name]) => !(diff && ["content", "old", "new"].includes(name)));
  const text = resultText(item);
  return html`<div class="unfolded">
    <dl class="facts">${args.map(([name, value]) => html`<div><dt>${visible(name)}</dt><dd><pre>${visible(cut(typeof value === "string" ? value : JSON.stringify(value), 20_000))}</pre></dd></div>`)}</dl>
    ${diff ? html`<${Diff} text=${diff} most=${2000} />` : null}
    ${item.output || text ? html`<pre class="output tall" tabindex="0">${output(cut(item.output || text, MAX_SHOWN))}</pre>` : null}
    <${Whole} blobs=${item.blobs} field="/text" blob=${item.outputBlob} log=${log} />
  </div>`;
}

/** @param {Item} item */
function resultText(item) {
  const text = String(item.text ?? "");
  return item.exitCode === null ? text : text.slice(text.indexOf("\n") + 1).replace(/^stdout:\n/, "");
}

/** The change that an edit made, as a diff. @param {Item} item */
function changeOf(item) {
  const shown = item.approval?.details?.diff;
  if (shown) return shown;
  const { path, content, old, new: added } = item.args ?? {};
  if (item.name === "write_file" && typeof content === "string") return whole("+", content, path);
  if (item.name === "edit_file" && typeof old === "string") return `${whole("-", old, path)}\n${whole("+", String(added ?? ""), "").slice(0)}`;
  return "";
}

/** @param {"+" | "-"} sign @param {string} text @param {string} path */
function whole(sign, text, path) {
  const lines = text.replace(/\n$/, "").split("\n");
  const head = path ? `@@ -1 +1 @@ ${path}\n` : "";
  return head + lines.map((line) => sign + line).join("\n");
}

/** A text that was too long for its event, read when somebody wants it. @param {{blobs: any, field: string, blob?: string | null, log: any}} props */
function Whole({ blobs, field, blob, log }) {
  const name = blob || blobs?.[field];
  if (!name) return null;
  const text = loaded.value.get(name);
  if (text === undefined) return html`<button class="fold" onClick=${() => load(log.sessionId, name)}>Show full output</button>`;
  return html`<pre class="output tall" tabindex="0">${output(text)}</pre>`;
}

/** @param {string} sessionId @param {string} blob */
async function load(sessionId, blob) {
  let text = "";
  for (let offset = 0; ; offset += BLOB_PART) {
    const part = await ask("read_blob", { blob, offset, limit: BLOB_PART }, sessionId);
    if (!part) return;
    text += part.text;
    if (offset + BLOB_PART >= part.total) break;
    if (text.length >= MAX_SHOWN) {
      text += `\n… ${plural(part.total - offset - BLOB_PART, "more byte")}; “buddy session export ${sessionId}” has all of it`;
      break;
    }
  }
  loaded.value = new Map(loaded.value).set(blob, text);
}

/** The open question, or who decided it and how. @param {{item: Item, log: any, isPast: boolean}} props */
function Decision({ item, log, isPast }) {
  const { approval, decision } = item;
  if (!approval) return null;
  if (item.state === "waiting") return html`<${Approval} key=${approval.approvalId} request=${approval} sessionId=${item.sessionId ?? log.sessionId} runId=${item.runId} isPast=${isPast} />`;
  if (!decision) return null;
  const who = decision.by === "console" ? "you" : visible(decision.by);
  if (decision.decision === "expired") return html`<p class="decision bad">✗ Approval timed out</p>`;
  const isYes = decision.decision === "approve";
  const asked = item.sessionId ? html` <span class="muted">sub-agent ${visible(approval.agent ?? "")}: ${visible(approval.summary)}</span>` : null;
  const scope = { session: " for this session", always: " from now on", until: " for a while" }[/** @type {string} */ (decision.scope)] ?? "";
  return html`<p class=${`decision ${isYes ? "ok" : "bad"}`}>${isYes ? "✓ Approved" : "✗ Denied"} by ${who}${scope}${decision.comment ? html`: <q>${visible(decision.comment)}</q>` : null}${asked}</p>`;
}

/** @param {{item: Item}} props */
function End({ item }) {
  const facts = [duration(item.durationMs), plural(item.turns, "turn"), item.tokens ? `${tokens(item.tokens)} tokens` : "", money(item.costUsd), item.acceptance ? `${item.acceptance.passed} of ${plural(item.acceptance.total, "check")} passed` : ""].filter(Boolean);
  const words = { success: "✓ Done", failed: "✗ Failed", denied: "⊘ Denied", cancelled: "■ Cancelled" }[/** @type {string} */ (item.outcome)] ?? item.outcome;
  const isNew = item.summary && item.outcome !== "success" && item.summary !== item.lastText;
  return html`<div class=${`end-body ${item.outcome}`}>
    <p><strong>${words}</strong> <span class="muted">${facts.join(" · ")}${item.limit ? ` · limit: ${item.limit}` : ""}</span></p>
    ${isNew ? html`<p class="said">${visible(cut(item.summary, 2000))}</p>` : null}
  </div>`;
}

/** @param {string} key */
function toggle(key) {
  const changed = new Set(unfolded.value);
  if (!changed.delete(key)) changed.add(key);
  unfolded.value = changed;
}
