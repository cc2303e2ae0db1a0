// @ts-check
/** Images that are pasted or dropped: brought to the session at once, and named by the next message. */

import { html, signal } from "../vendor/preact.js";
import { ask } from "../store.js";

const PART = 384 * 1024;

/** An image that waits for its message. @typedef {{blob: string, mediaType: string, name: string}} Attachment */

/** The images of the message that is being written, by session. @type {import("../vendor/preact.js").Signal<Record<string, Attachment[]>>} */
export const attached = signal({});

/** @param {string} sessionId @param {Attachment[]} images */
export const attach = (sessionId, images) => (attached.value = { ...attached.value, [sessionId]: images });

/** Take the images out of a paste or a drop. @param {string} sessionId @param {Event} event @param {DataTransfer | null} data */
export async function takeImages(sessionId, event, data) {
  const files = [...(data?.files ?? [])].filter((file) => file.type.startsWith("image/"));
  if (!files.length) return;
  event.preventDefault();
  for (const file of files) {
    const found = await upload(sessionId, file);
    if (found) attach(sessionId, [...(attached.value[sessionId] ?? []), found]);
  }
}

/** @param {{sessionId: string}} props */
export function Images({ sessionId }) {
  const images = attached.value[sessionId] ?? [];
  if (!images.length) return null;
  const without = (/** @type {Attachment} */ image) => attach(sessionId, images.filter((other) => other !== image));
  return html`<ul class="queue" aria-label="Images">${images.map((image) => html`<li>image: ${image.name}
    <button type="button" class="quiet" onClick=${() => without(image)} aria-label=${`Remove ${image.name}`}>Remove</button></li>`)}</ul>`;
}

/** @param {string} sessionId @param {File} file @returns {Promise<Attachment | null>} */
async function upload(sessionId, file) {
  const bytes = new Uint8Array(await file.arrayBuffer());
  let blob = "";
  for (let offset = 0; offset < bytes.length; offset += PART) {
    const part = { data: encode(bytes.subarray(offset, offset + PART)), offset, last: offset + PART >= bytes.length };
    const reply = await ask("upload_blob", blob ? { ...part, blob } : part, sessionId);
    if (!reply) return null;
    blob = reply.blob;
  }
  return blob ? { blob, mediaType: file.type, name: file.name } : null;
}

/** @param {Uint8Array} bytes */
function encode(bytes) {
  let text = "";
  for (let at = 0; at < bytes.length; at += 8192) text += String.fromCharCode(...bytes.subarray(at, at + 8192));
  return btoa(text);
}
