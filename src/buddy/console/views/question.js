// @ts-check
/**
 * A question of a server or an agent: a form, or an address to open.
 *
 * Invariants: only a button answers; an address is shown with its host, and opened by the person alone.
 */

import { html, useState } from "../vendor/preact.js";
import { connection, mayDecide, say } from "../store.js";
import { visible } from "../text.js";

/** @param {{item: any, sessionId: string, isPast: boolean}} props */
export function Question({ item, sessionId, isPast }) {
  const [values, setValues] = useState(() => startValues(item.question.schema));
  const [isSent, setSent] = useState(false);
  const { question } = item;
  const head = html`<header><strong>${question.agent ? html`<span class="chip agent">sub-agent ${visible(question.agent)}</span> ` : null}${visible(question.source)} asks</strong></header><p class="asked-text">${visible(question.message)}</p>`;
  if (item.answer) return html`<section class="approval" aria-label="Question">${head}<p class="muted">${WORDS[item.answer.action] ?? item.answer.action} by ${visible(item.answer.by)}</p></section>`;
  const isActive = mayDecide.value && !isPast && !isSent;
  const send = async (/** @type {string} */ action) => {
    setSent(true);
    const answer = action === "accept" && question.mode === "form" ? { answer: typedValues(question.schema, values) } : {};
    try {
      await connection.request("answer_question", { questionId: question.questionId, action, ...answer }, sessionId, { repeat: true });
    } catch (error) {
      say(/** @type {Error} */ (error).message, "error");
      setSent(false);
    }
  };
  return html`<section class="approval" aria-label="Question">
    ${head}
    ${question.mode === "url"
      ? html`<p>Open <code>${visible(question.url ?? "")}</code> on <strong>${visible(hostOf(question.url ?? ""))}</strong>, then confirm here.</p>`
      : Object.entries(question.schema?.properties ?? {}).map(([name, field]) => html`<${Field} key=${name} name=${name} field=${field} value=${values[name]} onValue=${(/** @type {any} */ value) => setValues({ ...values, [name]: value })} />`)}
    <div class="choices">
      <button class="primary" disabled=${!isActive} onClick=${() => send("accept")}>${question.mode === "url" ? "I have opened it" : "Answer"}</button>
      <button class="danger" disabled=${!isActive} onClick=${() => send("decline")}>Decline</button>
    </div>
  </section>`;
}

/** @type {Record<string, string>} */
const WORDS = { accept: "Answered", decline: "Declined", cancel: "Closed" };

/** @param {{name: string, field: any, value: any, onValue: (value: any) => void}} props */
function Field({ name, field, value, onValue }) {
  const label = html`<span>${visible(field.title ?? name)}${field.description ? html` <span class="muted">${visible(field.description)}</span>` : null}</span>`;
  const choices = choicesOf(field);
  if (field.type === "boolean") return html`<label class="field"><input type="checkbox" checked=${Boolean(value)} onChange=${(/** @type {any} */ event) => onValue(event.target.checked)} /> ${label}</label>`;
  if (choices.length && field.type === "array")
    return html`<fieldset class="field"><legend>${label}</legend>${choices.map((choice) => html`<label><input type="checkbox" checked=${(value ?? []).includes(choice)} onChange=${(/** @type {any} */ event) => onValue(event.target.checked ? [...(value ?? []), choice] : (value ?? []).filter((/** @type {any} */ one) => one !== choice))} /> ${visible(String(choice))}</label>`)}</fieldset>`;
  if (choices.length)
    return html`<label class="field">${label} <select value=${value ?? ""} onChange=${(/** @type {any} */ event) => onValue(event.target.value)}><option value="">–</option>${choices.map((choice) => html`<option value=${choice}>${visible(String(choice))}</option>`)}</select></label>`;
  const isNumber = field.type === "number" || field.type === "integer";
  return html`<label class="field">${label} <input type=${isNumber ? "number" : "text"} step="any" value=${value ?? ""} onInput=${(/** @type {any} */ event) => onValue(event.target.value)} /></label>`;
}

/** @param {any} field @returns {any[]} */
function choicesOf(field) {
  const inner = field.type === "array" ? field.items ?? {} : field;
  return inner.enum ?? (inner.oneOf ?? inner.anyOf ?? []).map((/** @type {any} */ one) => one.const).filter((/** @type {any} */ one) => one !== undefined);
}

/** @param {any} schema @returns {Record<string, any>} */
function startValues(schema) {
  return Object.fromEntries(Object.entries(schema?.properties ?? {}).filter(([, field]) => field.default !== undefined).map(([name, field]) => [name, field.default]));
}

/** What was typed, in the types that the form wants; what was left empty is left out. @param {any} schema @param {Record<string, any>} values */
function typedValues(schema, values) {
  /** @type {Record<string, any>} */
  const answer = {};
  for (const [name, field] of Object.entries(schema?.properties ?? {})) {
    const value = values[name];
    if (field.type === "boolean") answer[name] = Boolean(value);
    else if (value === undefined || value === "") continue;
    else answer[name] = field.type === "number" || field.type === "integer" ? Number(value) : value;
  }
  return answer;
}

/** @param {string} url */
function hostOf(url) {
  try {
    return new URL(url).host;
  } catch {
    return "an unknown host";
  }
}
