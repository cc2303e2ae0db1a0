// @ts-check
/** Where one writes: a message starts a run, or waits for the end of one, or steers it. */

import { html, signal, useRef } from "../vendor/preact.js";
import { ask, newId } from "../store.js";
import { attach, attached, Images, takeImages } from "./images.js";
import { matching, Names } from "./names.js";

/** What was written but not sent, by session. @type {import("../vendor/preact.js").Signal<Record<string, string>>} */
export const drafts = signal({});
/** Messages that wait for the end of the run, as far as this page sent them. @type {import("../vendor/preact.js").Signal<Record<string, string[]>>} */
const queued = signal({});

/** @param {{log: import("../session_log.js").SessionLog}} props */
export function Composer({ log }) {
  const id = log.sessionId;
  const view = log.live;
  const input = useRef(/** @type {HTMLTextAreaElement | null} */ (null));
  const text = drafts.value[id] ?? "";
  const isEmpty = !text.trim() && !(attached.value[id] ?? []).length;
  const write = (/** @type {string} */ value) => (drafts.value = { ...drafts.value, [id]: value });
  const send = async (/** @type {"send" | "queue" | "steer"} */ how) => {
    const words = text.trim();
    const images = attached.value[id] ?? [];
    if (!words && !images.length) return;
    write("");
    attach(id, []);
    const done = await deliver(log, words, how, images);
    if (!done) {
      write(words);
      attach(id, images);
    }
  };
  const names = matching(view.root, text);
  const choose = (/** @type {string} */ name) => {
    write(`/${name} `);
    input.current?.focus();
  };
  const key = (/** @type {KeyboardEvent} */ event) => {
    if (event.key === "Tab" && !event.shiftKey && names.length) {
      event.preventDefault();
      choose(names[0].name);
      return;
    }
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    send(view.active ? "queue" : "send");
  };
  const waiting = (queued.value[id] ?? []).filter((words) => !view.items.slice(-50).some((item) => item.kind === "user" && item.text === words));
  return html`<form class="composer" onSubmit=${(/** @type {Event} */ event) => { event.preventDefault(); send(view.active ? "queue" : "send"); }}>
    ${waiting.length ? html`<ul class="queue" aria-label="Queued">${waiting.map((words) => html`<li>queued: ${words}</li>`)}</ul>` : null}
    <${Names} names=${names} onChoose=${choose} />
    <${Images} sessionId=${id} />
    <textarea id="composer" ref=${input} rows=${Math.min(10, Math.max(2, text.split("\n").length))} value=${text} onKeyDown=${key}
      onPaste=${(/** @type {ClipboardEvent} */ event) => takeImages(id, event, event.clipboardData)}
      onDragOver=${(/** @type {DragEvent} */ event) => event.dataTransfer?.types.includes("Files") && event.preventDefault()}
      onDrop=${(/** @type {DragEvent} */ event) => takeImages(id, event, event.dataTransfer)}
      placeholder=${view.active ? "Write a message; it will be queued until the run ends" : "Write a message"} aria-label="Message"
      onInput=${(/** @type {any} */ event) => write(event.target.value)}></textarea>
    <div class="composer-actions">
      <span class="muted hint">Enter to send, Shift+Enter for a new line</span>
      ${view.active
        ? html`<button type="button" onClick=${() => send("steer")} disabled=${isEmpty} title="The model sees it at its next turn">Steer</button>
            <button class="primary" disabled=${isEmpty}>Queue</button>
            <button type="button" class="danger" onClick=${() => ask("cancel_run", { sessionId: id, runId: view.active }, id)}>Stop</button>`
        : html`<button class="primary" disabled=${isEmpty}>Send</button>`}
    </div>
  </form>`;
}

/** @param {import("../session_log.js").SessionLog} log @param {string} text @param {"send" | "queue" | "steer"} how @param {import("./images.js").Attachment[]} [images] */
export async function deliver(log, text, how, images = []) {
  const id = log.sessionId;
  const said = images.length ? { text, attachments: images } : { text };
  if (how === "steer") return ask("steer_run", { runId: log.live.active, ...said }, id);
  const clientMessageId = newId("msg");
  if (how === "send") return ask("send_user_message", { sessionId: id, clientMessageId, ...said }, id, { repeat: true });
  const done = await ask("queue_message", { clientMessageId, ...said }, id, { repeat: true });
  if (done) queued.value = { ...queued.value, [id]: [...(queued.value[id] ?? []), text || images.map((image) => image.name).join(", ")].slice(-20) };
  return done;
}
