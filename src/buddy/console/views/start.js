// @ts-check
/** A new session: where, with what, how confined, how far. What is refused stays in the dialog, with the reason. */

import { html, useEffect, useState } from "../vendor/preact.js";
import { RequestError } from "../connection.js";
import { connection, dialog, go, newId, rows, say } from "../store.js";
import { visible } from "../text.js";
import { Dialog } from "./dialog.js";

export function StartSession() {
  const roots = [...new Set([...rows.value.values()].map((row) => row.repo.rootPath))];
  const [profiles, setProfiles] = useState(/** @type {any[]} */ ([]));
  const [root, setRoot] = useState(roots[0] ?? "");
  const [isBusy, setBusy] = useState(false);
  const [problem, setProblem] = useState("");
  useEffect(() => {
    connection.request("list_profiles", {}).then((reply) => setProfiles(reply.profiles), () => {});
  }, []);
  const submit = async (/** @type {any} */ event) => {
    event.preventDefault();
    setBusy(true);
    setProblem("");
    try {
      const sessionId = await start(new FormData(event.target));
      dialog.value = "";
      go(`/session/${sessionId}`);
    } catch (error) {
      setProblem(wordsOf(error));
      if (dialog.value !== "start") say(wordsOf(error), "error");
    }
    setBusy(false);
  };
  return html`<${Dialog} title="New session">
    <form class="form" onSubmit=${submit}>
      <label>Directory
        <input name="root" required list="roots" value=${root} onInput=${(/** @type {any} */ event) => setRoot(event.target.value)} placeholder="/absolute/path" pattern=" */.*" title="An absolute path, such as /srv/shop" spellcheck="false" autocomplete="off" />
        <datalist id="roots">${roots.map((root) => html`<option value=${root} />`)}</datalist>
      </label>
      <label>What should it do?
        <textarea name="prompt" rows="4" placeholder="Leave empty to start without a message"></textarea>
      </label>
      <div class="fields">
        <label>Model
          <select name="profile"><option value="">Default</option>${profiles.map((profile) => html`<option value=${profile.name}>${profile.name} · ${profile.model}</option>`)}</select>
        </label>
        <label>Where
          <input name="target" placeholder="this machine" title="ssh:HOST or container:NAME" spellcheck="false" />
        </label>
        <label>Sandbox
          <select name="sandbox"><option value="">${hasConfined() ? "confined" : "none"} (default)</option><option value="confined">confined</option><option value="host">none</option></select>
        </label>
        <label>Approvals
          <select name="policy"><option value="">Default</option><option value="ask">Ask for everything</option><option value="auto">Ask only outside the sandbox</option><option value="none">Deny everything</option></select>
        </label>
        <label>Max turns <input name="turns" type="number" min="1" placeholder="50" /></label>
        <label>Max cost (USD) <input name="cost" type="number" min="0" step="any" placeholder="no limit" /></label>
      </div>
      <label class="check"><input type="checkbox" name="plan" /> Plan mode (read-only)</label>
      ${problem ? html`<p class="bad" role="alert">${visible(problem)}</p>` : null}
      <footer><button type="button" class="quiet" onClick=${() => (dialog.value = "")}>Cancel</button><button class="primary" disabled=${isBusy}>${isBusy ? "Starting…" : "Start"}</button></footer>
    </form>
  <//>`;
}

function hasConfined() {
  return String(connection.hello?.sandbox?.confined ?? "").startsWith("proven") || String(connection.hello?.sandbox?.confined ?? "").startsWith("untried");
}

/** @param {unknown} error */
function wordsOf(error) {
  const words = error instanceof Error ? error.message : String(error);
  return error instanceof RequestError && error.detail ? `${words}; ${error.detail}` : words;
}

/** Starts it and its first run; returns its id. If the message is refused, no session is left. @param {FormData} form @returns {Promise<string>} */
async function start(form) {
  const text = (/** @type {string} */ name) => String(form.get(name) ?? "").trim();
  const target = text("target");
  const sandbox = text("sandbox") || (target || !hasConfined() ? "" : "confined");
  const policy = text("policy") || (sandbox === "confined" ? "auto" : "ask");
  const budget = { ...(text("turns") ? { maxTurns: Number(text("turns")) } : {}), ...(Number(text("cost")) ? { maxCostUsd: Number(text("cost")) } : {}) };
  const options = {
    approvalPolicy: policy,
    ...(text("profile") ? { profile: text("profile") } : {}),
    ...(target ? { target } : {}),
    ...(sandbox ? { sandbox } : {}),
    ...(form.get("plan") ? { plan: true } : {}),
    ...(Object.keys(budget).length ? { budget } : {}),
  };
  const { sessionId } = await connection.request("start_session", { mode: "interactive", provider: text("profile") || "default", sandboxProvider: "local", repo: { rootPath: text("root") }, options });
  if (!text("prompt")) return sessionId;
  try {
    await connection.request("send_user_message", { sessionId, clientMessageId: newId("msg"), text: text("prompt") }, sessionId, { repeat: true });
  } catch (error) {
    await connection.request("delete_session", {}, sessionId).catch(() => {});
    throw error;
  }
  return sessionId;
}
