// @ts-check
/** One session: what happened, what it costs, what it changed, and what to say next. */

import { html, signal, useEffect } from "../vendor/preact.js";
import { markSeen } from "../reading.js";
import { ask, connection, go, isListed, mayDrive, route, rows, say, session } from "../store.js";
import { STATE_WORDS, baseName, money, plural, tokens, visible } from "../text.js";
import { Composer } from "./composer.js";
import { archive, closeMenu, closeOthers, follow, remove, rename } from "./inbox.js";
import { lazy } from "./lazy.js";
import { Panel } from "./panel.js";
import { Timeline } from "./timeline.js";

const Changes = lazy(() => import("./changes.js"), "Changes");
const Travel = lazy(() => import("./travel.js"), "Travel");

const tab = signal("timeline");
export const isTravelling = signal(false);

export function Session() {
  const log = session.value;
  const { sessionId } = route.value;
  const row = rows.value.get(sessionId);
  const isPast = Boolean(log?.at.value);
  useEffect(() => {
    tab.value = "timeline";
    isTravelling.value = false;
  }, [sessionId]);
  useEffect(() => {
    if (isPast) isTravelling.value = true;
  }, [isPast]);
  if (!log) return html`<p class="muted empty">${isListed.value ? "Opening…" : "Loading…"}</p>`;
  if (log.problem.value) return html`<div class="nothing"><p role="alert">${log.problem.value}</p><button onClick=${() => go("/")}>Back to the list</button></div>`;
  log.tick.value;
  if (document.visibilityState === "visible") queueMicrotask(() => markSeen(sessionId, log.live.lastSeq));
  const isTravelShown = isTravelling.value || isPast;
  return html`
    <${Head} log=${log} row=${row} />
    <div class="tabs">
      <div role="tablist" aria-label="Views of the session">${[["timeline", "Timeline"], ["changes", "Changes"]].map(
        ([name, words]) => html`<button role="tab" id=${`tab-${name}`} aria-controls="tab-panel" aria-selected=${tab.value === name}
          data-key=${name} onClick=${() => (tab.value = name)}>${words}</button>`,
      )}</div>
      <button class="tab-action" data-key="travel" aria-pressed=${isTravelShown} onClick=${() => toggleTravel(log, isTravelShown)}>Time travel</button>
    </div>
    <div class="session-body" id="tab-panel" role="tabpanel" aria-labelledby=${`tab-${tab.value}`}>
      ${tab.value === "changes"
        ? html`<${Changes} log=${log} onSend=${() => (tab.value = "timeline")} />`
        : html`<div class="column">
            <${Timeline} key=${sessionId} log=${log} />
            ${isTravelShown ? html`<${Travel} log=${log} />` : null}
            ${mayDrive.value && !isPast ? html`<${Composer} log=${log} />` : null}
          </div>`}
      <${Panel} log=${log} />
    </div>
  `;
}

/** @param {import("../session_log.js").SessionLog} log @param {boolean} isShown */
function toggleTravel(log, isShown) {
  tab.value = "timeline";
  isTravelling.value = !isShown;
  if (isShown) {
    log.look(0);
    go(`/session/${log.sessionId}`);
  }
}

/** @param {{log: import("../session_log.js").SessionLog, row?: import("../store.js").Row}} props */
function Head({ log, row }) {
  const view = log.view;
  const title = view.title || row?.title || view.runs.values().next().value?.prompt.split("\n")[0] || "New session";
  const percent = view.context?.limit ? Math.round((100 * view.context.used) / view.context.limit) : null;
  const place = view.root || row?.repo.rootPath || "";
  return html`<header class="session-head">
    <a class="back" href="/" onClick=${follow("/")} aria-label="Back to the list">‹</a>
    <div class="session-name">
      <h1 title=${visible(title)}>${visible(title)}</h1>
      <p class="muted"><span title=${visible(place)}>${visible(baseName(place))}</span>${view.model ? ` · ${visible(view.model)}` : ""}${row?.agent && row.parent ? html` · sub-agent ${visible(row.agent)} of <a href=${`/session/${row.parent}`} onClick=${follow(`/session/${row.parent}`)}>its parent</a>` : null}</p>
    </div>
    <div class="session-facts">
      <span class=${`state ${view.state}`}>${STATE_WORDS[view.state] ?? view.state}</span>
      ${view.isPlan ? html`<span class="chip plan">plan only</span>` : null}
      ${view.policy ? html`<span class=${`chip ${view.policy === "all" || view.policy === "until" ? "danger" : ""}`} title="Approval policy">${POLICY[view.policy] ?? view.policy}</span>` : null}
      ${view.sandbox ? html`<span class=${`chip ${view.sandbox === "host" || view.sandbox === "local" ? "plain" : "safe"}`} title="Sandbox">${view.sandbox === "host" || view.sandbox === "local" ? "no sandbox" : visible(view.sandbox)}</span>` : null}
      ${view.costUsd == null ? null : html`<span class="figure" title="Cost so far">${money(view.costUsd)}</span>`}
      ${view.inputTokens ? html`<span class="figure" title=${`${plural(view.inputTokens, "token")} in, ${plural(view.outputTokens, "token")} out`}>${tokens(view.inputTokens + view.outputTokens)} tokens</span>` : null}
      ${percent === null ? null : html`<span class="figure" title=${`${plural(view.context?.used ?? 0, "token")} of ${plural(view.context?.limit ?? 0, "token")}`}>${percent}% context</span>`}
      ${mayDrive.value && row ? html`<${SessionMenu} log=${log} row=${row} />` : null}
    </div>
  </header>`;
}

/** @type {Record<string, string>} */
const POLICY = { ask: "asks", auto: "asks outside the sandbox", all: "approves everything", none: "denies everything", until: "approves for a while" };

/** @param {{log: import("../session_log.js").SessionLog, row: import("../store.js").Row}} props */
function SessionMenu({ log, row }) {
  const id = log.sessionId;
  return html`<details class="menu" onToggle=${closeOthers}>
    <summary aria-label="Actions">⋯</summary>
    <div class="menu-items" onClick=${closeMenu}>
      <button onClick=${() => rename(row)}>Rename…</button>
      <button onClick=${() => switchModel(id)}>Switch model…</button>
      <button onClick=${() => compact(id)}>Compact the context</button>
      <button onClick=${() => setPolicy(id, "ask")}>Ask for everything</button>
      <button onClick=${() => setPolicy(id, "auto")}>Ask only outside the sandbox</button>
      <button onClick=${() => fork(id, log.at.value || log.live.lastSeq)}>Fork from here</button>
      <button onClick=${() => archive(row)}>${row.archived ? "Unarchive" : "Archive"}</button>
      <button class="danger" onClick=${() => remove(row)}>Delete…</button>
    </div>
  </details>`;
}

/** @param {string} sessionId */
async function switchModel(sessionId) {
  const listed = await connection.request("list_profiles", {}).catch(() => ({ profiles: [] }));
  const names = listed.profiles.map((/** @type {any} */ profile) => profile.name).join(", ");
  const wanted = prompt(`Profile, or profile/model${names ? ` (${names})` : ""}`)?.trim();
  if (!wanted) return;
  const [profile, ...model] = wanted.split("/");
  const done = await ask("switch_model", { profile, ...(model.length ? { model: model.join("/") } : {}) }, sessionId);
  if (done) say(`Model: ${done.profile} · ${done.model}`);
}

/** @param {string} sessionId */
async function compact(sessionId) {
  say("Compacting…");
  const done = await ask("compact_session", {}, sessionId);
  if (done) say(`Compacted: ${plural(done.beforeTokens, "token")} → ${plural(done.afterTokens, "token")}`);
}

/** @param {string} sessionId @param {string} policy */
async function setPolicy(sessionId, policy) {
  await ask("set_approval_policy", { policy }, sessionId);
}

/** @param {string} sessionId @param {number} seq */
export async function fork(sessionId, seq) {
  const done = await ask("fork_session", { seq }, sessionId);
  if (!done) return;
  say(`Forked at event ${seq}`);
  go(`/session/${done.sessionId}`);
}
