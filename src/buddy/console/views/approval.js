// @ts-check
/**
 * An open question, with everything that the terminal shows, and every answer.
 *
 * Invariants: yes can be given only after the whole action was in view; one press decides nothing that a stray key could
 * have given: a key moves to a button, and a button that has just got the focus does not answer yet.
 */

import { html, useEffect, useLayoutEffect, useRef, useState } from "../vendor/preact.js";
import { actionLines, facts, ruleText, scripts } from "../approval_lines.js";
import { ask, connection, isOwner, mayDecide, say } from "../store.js";
import { duration, plural, visible } from "../text.js";

const GRANT_SECONDS = 600;
const CALM_MS = 400;
const NEVER = 9_007_199_254_740_991;
const MAX_LINES = 5000;

/** @param {{request: any, sessionId: string, runId: string, isPast: boolean}} props */
export function Approval({ request, sessionId, runId, isPast }) {
  const [full, setFull] = useState(request);
  const [isRead, setRead] = useState(false);
  const [comment, setComment] = useState("");
  const [isSent, setSent] = useState(false);
  const action = useRef(/** @type {HTMLElement | null} */ (null));
  const isWhole = full !== request || !Object.keys(request.blobs ?? {}).length;
  useEffect(() => {
    if (!isWhole) readFull(sessionId, request).then(setFull);
  }, [request.approvalId]);
  const look = () => {
    const place = action.current;
    if (place && place.scrollTop + place.clientHeight >= place.scrollHeight - 4) setRead(true);
  };
  useLayoutEffect(look);
  useEffect(() => {
    addEventListener("resize", look);
    return () => removeEventListener("resize", look);
  }, []);
  const lines = actionLines(full);
  const canApprove = isWhole && isRead && lines.length <= MAX_LINES;
  const rule = request.details.alwaysRule;
  const decide = async (/** @type {string} */ decision, /** @type {Record<string, any>} */ more = {}) => {
    setSent(true);
    const answer = { sessionId, runId, approvalId: request.approvalId, decision, ...(comment.trim() ? { comment: comment.trim() } : {}), ...more };
    await submit(answer, () => setSent(false));
  };
  const isActive = mayDecide.value && !isPast && !isSent;
  return html`<section class="approval" aria-label="Approval">
    <header><strong>${request.agent ? html`<span class="chip agent">sub-agent ${visible(request.agent)}</span> ` : null}${visible(request.title)}</strong><${Countdown} expiresAt=${request.expiresAt} /></header>
    <div class="asked" ref=${action} onScroll=${look} tabindex="0" role="group" aria-label="What would run">
      ${lines.slice(0, MAX_LINES).map((line) => html`<div class=${`asked-line ${line.kind} ${signOf(line)}`}>${line.text || " "}</div>`)}
    </div>
    <dl class="facts">${facts(full).map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>
    ${scripts(full).map(({ path, lines }) => html`<details><summary>${path} <span class="muted">${plural(lines.length, "line")}</span></summary><div class="asked" tabindex="0">${lines.slice(0, MAX_LINES).map((line) => html`<div class=${`asked-line ${line.kind}`}>${line.text || " "}</div>`)}</div></details>`)}
    ${rule ? html`<p class="rule muted">“Always” adds this rule: <code>${ruleText(rule)}</code></p>` : null}
    ${mayDecide.value && !isPast
      ? html`<textarea class="comment" rows="1" placeholder="Tell Buddy why, or what to do instead (optional)" aria-label="Comment" value=${comment} onInput=${(/** @type {any} */ event) => setComment(event.target.value)}></textarea>
          ${canApprove ? null : html`<p class="warn" role="status">${isWhole ? "Scroll to the end to enable Approve." : "Loading the full request…"}</p>`}
          <div class="choices">
            <${Choice} name="approve" isActive=${isActive && canApprove} kind="primary" onChoose=${() => decide("approve")}>Approve<//>
            <${Choice} isActive=${isActive && canApprove} onChoose=${() => decide("approve", { scope: "session" })}>For this session<//>
            ${rule ? html`<${Choice} isActive=${isActive && canApprove} onChoose=${() => decide("approve", { scope: "until", durationSeconds: GRANT_SECONDS })}>For 10 minutes<//>` : null}
            ${rule && isOwner.value ? html`<${Choice} isActive=${isActive && canApprove} onChoose=${() => decide("approve", { scope: "always" })}>Always<//>` : null}
            <${Choice} name="deny" isActive=${isActive} kind="danger" onChoose=${() => decide("deny")}>${comment.trim() ? "Deny and tell it" : "Deny"}<//>
            <${Choice} isActive=${isActive} onChoose=${() => decide("deny", { stop: true })}>Deny and stop<//>
          </div>`
      : null}
  </section>`;
}

/** A button that answers only a deliberate press: not a key that was meant for something else a moment ago. @param {{name?: string, isActive: boolean, kind?: string, onChoose: () => void, children?: any}} props */
function Choice({ name, isActive, kind = "", onChoose, children }) {
  const since = useRef(0);
  const press = (/** @type {MouseEvent} */ event) => {
    const isKey = event.detail === 0;
    if (isKey && Date.now() - since.current < CALM_MS) return;
    onChoose();
  };
  return html`<button class=${kind} data-decide=${name ?? null} disabled=${!isActive} onFocus=${() => (since.current = Date.now())} onClick=${press}>${children}</button>`;
}

/** @param {{expiresAt: number}} props */
function Countdown({ expiresAt }) {
  const [left, setLeft] = useState(expiresAt - Date.now());
  useEffect(() => {
    if (expiresAt >= NEVER) return;
    const timer = setInterval(() => setLeft(expiresAt - Date.now()), 1000);
    return () => clearInterval(timer);
  }, [expiresAt]);
  if (expiresAt >= NEVER) return null;
  return html`<span class="countdown" title="Denied if nobody decides by then">${left > 0 ? `expires in ${duration(left)}` : "expired"}</span>`;
}

/** @param {Record<string, any>} answer @param {() => void} onFailure */
async function submit(answer, onFailure) {
  try {
    await connection.request("submit_approval", answer, answer.sessionId, { repeat: true });
  } catch (error) {
    const code = /** @type {any} */ (error).code;
    if (code === "APPROVAL_EXPIRED" || code === "APPROVAL_NOT_FOUND") say("Someone else already decided, or the request expired.", "error");
    else say(/** @type {Error} */ (error).message, "error");
    onFailure();
  }
}

/** Everything that will run, with the long texts read back into it. @param {string} sessionId @param {any} request */
async function readFull(sessionId, request) {
  const full = structuredClone(request);
  for (const [pointer, blob] of Object.entries(request.blobs ?? {})) {
    let text = "";
    for (let offset = 0; ; ) {
      const part = await ask("read_blob", { blob, offset, limit: 262_144 }, sessionId);
      if (!part) return request;
      const isLast = offset + 262_144 >= part.total;
      const piece = isLast ? part.text : part.text.replace(/\ufffd+$/, "");
      text += piece;
      offset += new TextEncoder().encode(piece).length;
      if (isLast) break;
    }
    put(full, pointer, text);
  }
  return full;
}

/** @param {any} root @param {string} pointer @param {string} text */
function put(root, pointer, text) {
  const names = pointer.split("/").slice(1).map((name) => name.replaceAll("~1", "/").replaceAll("~0", "~"));
  const last = /** @type {string} */ (names.pop());
  const place = names.reduce((value, name) => value?.[name], root);
  if (place) place[last] = text;
}

/** @param {import("../approval_lines.js").AskedLine} line */
function signOf(line) {
  if (line.kind !== "diff") return "";
  return line.text.startsWith("+") ? "add" : line.text.startsWith("-") ? "remove" : line.text.startsWith("@@") ? "hunk" : "";
}
