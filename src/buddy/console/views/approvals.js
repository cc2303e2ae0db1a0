// @ts-check
/** Every open question of every session, in one queue. What somebody else decides leaves it at once, and says who. */

import { html, useEffect, useState } from "../vendor/preact.js";
import { connection, rows } from "../store.js";
import { baseName, visible } from "../text.js";
import { Approval } from "./approval.js";
import { follow } from "./inbox.js";

const SAID_MS = 15_000;

export function Approvals() {
  const [open, setOpen] = useState(/** @type {any[] | null} */ (null));
  const [decided, setDecided] = useState(/** @type {any[]} */ ([]));
  // Every change of a session that waits, or waited, may be an answer.
  const pulse = [...rows.value.values()].filter((row) => row.state === "awaiting_approval").map((row) => `${row.sessionId}${row.lastSeq}`).join();
  useEffect(() => {
    let isCurrent = true;
    connection.request("list_approvals", {}).then(async ({ approvals }) => {
      const ids = new Set(approvals.map((/** @type {any} */ request) => request.approvalId));
      const gone = (open ?? []).filter((request) => !ids.has(request.approvalId));
      const answers = await Promise.all(gone.map(answerOf));
      if (!isCurrent) return;
      setOpen(approvals);
      if (answers.length) setDecided((before) => [...before, ...answers].slice(-10));
    }, () => {});
    return () => {
      isCurrent = false;
    };
  }, [pulse, connection.state.value]);
  useEffect(() => {
    if (!decided.length) return;
    const timer = setTimeout(() => setDecided((before) => before.slice(1)), SAID_MS);
    return () => clearTimeout(timer);
  }, [decided]);
  return html`<div class="approvals">
    <header class="session-head"><a class="back" href="/" onClick=${follow("/")} aria-label="Back to the list">‹</a><div class="session-name"><h1>Approvals</h1></div></header>
    <div class="approvals-list" aria-live="polite" tabindex="0">
      ${decided.map((answer) => html`<p key=${answer.approvalId} class="decided">${answer.words} <span class="muted">${visible(answer.title)}</span></p>`)}
      ${(open ?? []).map((request) => html`<section class="entry" tabindex="-1" key=${request.approvalId}>
        <p class="from"><a href=${`/session/${request.sessionId}`} onClick=${follow(`/session/${request.sessionId}`)}>${visible(titleOf(request.sessionId))}</a> <span class="muted">${visible(baseName(rows.value.get(request.sessionId)?.repo.rootPath ?? ""))}</span></p>
        <${Approval} request=${request} sessionId=${request.sessionId} runId=${request.runId} isPast=${false} />
      </section>`)}
      ${open && !open.length ? html`<p class="muted empty">Nothing needs your approval.</p>` : null}
    </div>
  </div>`;
}

/** @param {string} sessionId */
function titleOf(sessionId) {
  return rows.value.get(sessionId)?.title || sessionId;
}

/** Who answered a question that is no longer open. @param {any} request */
async function answerOf(request) {
  const found = await connection.request("list_decisions", { sessionId: request.sessionId, limit: 50 }).catch(() => ({ decisions: [] }));
  const decision = found.decisions.find((/** @type {any} */ one) => one.approvalId === request.approvalId);
  const by = decision?.by === "console" ? "you" : visible(decision?.by ?? "");
  const words = { approve: `✓ Approved by ${by}`, deny: `✗ Denied by ${by}`, expired: "✗ Approval timed out" }[/** @type {string} */ (decision?.decision)] ?? "No longer open";
  return { approvalId: request.approvalId, title: request.title, words };
}
