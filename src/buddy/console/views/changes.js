// @ts-check
/** The files that a session changed: in total or by run, as a diff, with comments that become the next message. */

import { html, useEffect, useState } from "../vendor/preact.js";
import { connection, mayDrive } from "../store.js";
import { cut, plural, visible } from "../text.js";
import { deliver } from "./composer.js";
import { Diff, lineKey } from "./diff_view.js";

const MOST_LINES = 3000;
const MOST_NAMED = 20;
const BLOB_PART = 262_144;

/** @typedef {{path: string, change: string, added: number, removed: number, diff?: string, blob?: string, conflict?: string}} Change */

/** @param {{log: import("../session_log.js").SessionLog, onSend: () => void}} props */
export function Changes({ log, onSend }) {
  const view = log.view;
  const [scope, setScope] = useState("");
  const [turn, setTurn] = useState(0);
  const [isSplit, setSplit] = useState(matchMedia("(min-width: 1400px)").matches);
  const [reply, setReply] = useState(/** @type {{files: Change[], uncovered?: string} | null} */ (null));
  const [problem, setProblem] = useState("");
  const [comments, setComments] = useState(/** @type {Record<string, Map<string, string>>} */ ({}));
  const runs = [...view.runs.values()];
  const turns = view.runs.get(scope)?.turns ?? 0;
  const changed = [...view.files.values()].reduce((sum, file) => sum + file.changes, 0) + view.fileSteps;
  useEffect(() => {
    const selection = { diff: true, ...(scope ? { runId: scope, ...(turn ? { turn } : {}) } : { all: true }), ...(log.at.value ? { atSeq: log.at.value } : {}) };
    connection.request("list_changes", selection, log.sessionId).then(
      (found) => {
        setReply(found);
        setProblem("");
      },
      (error) => setProblem(error.message),
    );
  }, [log.sessionId, scope, turn, changed, log.at.value]);
  const files = reply?.files ?? [];
  const count = Object.values(comments).reduce((sum, lines) => sum + lines.size, 0);
  const comment = (/** @type {string} */ path, /** @type {import("../diff.js").DiffRow} */ row) => {
    const key = lineKey(row);
    const words = prompt(`Comment on ${path}:${key.slice(1)}`, comments[path]?.get(key) ?? "");
    if (words === null) return;
    const lines = new Map(comments[path] ?? []);
    if (words.trim()) lines.set(key, words.trim());
    else lines.delete(key);
    setComments({ ...comments, [path]: lines });
  };
  const send = async () => {
    const done = await deliver(log, messageOf(comments), log.live.active ? "queue" : "send");
    if (!done) return;
    setComments({});
    onSend();
  };
  const restore = async (/** @type {Record<string, any>} */ selection) => {
    try {
      const preview = await connection.request("restore_files", selection, log.sessionId);
      const left = preview.conflicts.map((/** @type {any} */ one) => `\n  ${one.path}: ${one.why}`).join("");
      const names = preview.restored.slice(0, MOST_NAMED).map((/** @type {any} */ one) => `\n  ${one.path}`).join("");
      if (!preview.restored.length) return setProblem(left ? `Nothing was restored. Conflicts:${left}` : "Nothing to restore.");
      if (!confirm(`Restore ${plural(preview.restored.length, "file")}?${names}${left ? `\n\nLeft alone:${left}` : ""}`)) return;
      await connection.request("restore_files", { ...selection, dryRun: false }, log.sessionId);
      setProblem(left ? `Left alone:${left}` : "");
    } catch (error) {
      setProblem(/** @type {Error} */ (error).message);
    }
  };
  const showAll = async (/** @type {Change} */ file) => {
    try {
      const diff = await readBlob(log.sessionId, file.blob ?? "");
      setReply({ ...reply, files: files.map((one) => (one === file ? { ...one, diff, blob: undefined } : one)) });
    } catch (error) {
      setProblem(/** @type {Error} */ (error).message);
    }
  };
  const mayRestore = mayDrive.value && !log.at.value && !log.live.active;
  return html`<div class="changes" tabindex="0">
    <div class="changes-head">
      <select aria-label="Which changes" value=${scope} onChange=${(/** @type {any} */ event) => { setScope(event.target.value); setTurn(0); }}>
        <option value="">The whole session</option>
        ${runs.map((run, at) => html`<option value=${run.runId}>Run ${at + 1}: ${visible(cut(run.prompt.split("\n")[0] || run.runId, 60))}</option>`)}
      </select>
      ${turns > 1
        ? html`<select aria-label="Which turn" value=${turn} onChange=${(/** @type {any} */ event) => setTurn(Number(event.target.value))}>
            <option value="0">All turns</option>${Array.from({ length: turns }, (_, at) => html`<option value=${at + 1}>Turn ${at + 1}</option>`)}
          </select>`
        : null}
      <span class="muted">${plural(files.length, "file")} · <span class="ok">+${sum(files, "added")}</span> <span class="bad">−${sum(files, "removed")}</span></span>
      <button aria-pressed=${isSplit} onClick=${() => setSplit(!isSplit)}>Side by side</button>
      ${mayRestore && files.length ? html`<button onClick=${() => restore(scope ? { runId: scope, ...(turn ? { turn } : {}) } : { all: true })}>Undo these changes</button>` : null}
      ${mayRestore && view.fileSteps ? html`<button onClick=${() => restore({ redo: true })}>Redo</button>` : null}
      ${count && mayDrive.value ? html`<button class="primary" onClick=${send}>Send ${plural(count, "comment")}</button>` : null}
    </div>
    ${problem ? html`<p role="alert" class="warn">${visible(problem)}</p>` : null}
    ${reply?.uncovered ? html`<p class="muted note">${visible(typeof reply.uncovered === "string" ? reply.uncovered : JSON.stringify(reply.uncovered))}</p>` : null}
    ${files.map(
      (file) => html`<details class="file" open key=${file.path}>
        <summary><code>${visible(file.path)}</code> <span class="muted">${file.change}</span> <span class="ok">+${file.added}</span> <span class="bad">−${file.removed}</span>${file.conflict ? html` <span class="warn">${visible(file.conflict)}</span>` : null}</summary>
        ${file.diff ? html`<${Diff} text=${file.diff} most=${MOST_LINES} isSplit=${isSplit} comments=${comments[file.path]} onLine=${mayDrive.value ? (/** @type {any} */ row) => comment(file.path, row) : undefined} />` : null}
        ${file.blob ? html`<button class="fold" onClick=${() => showAll(file)}>Show the full diff</button>` : null}
      </details>`,
    )}
    ${files.length || problem ? null : html`<p class="muted empty">${reply ? "No files changed." : "Loading…"}</p>`}
  </div>`;
}

/** @param {Change[]} files @param {"added" | "removed"} field */
function sum(files, field) {
  return files.reduce((total, file) => total + (file[field] ?? 0), 0);
}

/** A diff that was too long for the reply. @param {string} sessionId @param {string} blob @returns {Promise<string>} */
async function readBlob(sessionId, blob) {
  let text = "";
  for (let offset = 0; ; ) {
    const part = await connection.request("read_blob", { blob, offset, limit: BLOB_PART }, sessionId);
    text += part.text;
    offset += new TextEncoder().encode(part.text).length;
    if (!part.text || offset >= part.total) return text;
  }
}

/** @param {Record<string, Map<string, string>>} comments */
function messageOf(comments) {
  const lines = Object.entries(comments).flatMap(([path, found]) => [...found].map(([key, words]) => `- ${path}:${key.slice(1)}${key.startsWith("-") ? " (removed line)" : ""}: ${words}`));
  return `Comments on your changes:\n\n${lines.join("\n")}`;
}
