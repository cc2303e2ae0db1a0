// @ts-check
/** The page's beginning: sign in, connect, draw. */

import { effect, html, render, untracked } from "./vendor/preact.js";
import { watchAttention } from "./attention.js";
import { listenForKeys } from "./keys.js";
import { connection, go, hasToken, isListed, me, openSession, putRow, dropRow, route, say, signIn, watchSessions } from "./store.js";
import { App } from "./views/app.js";
import { SignedOut } from "./views/signed_out.js";

const root = /** @type {Element} */ (document.getElementById("app"));

async function start() {
  const problem = await signIn().catch(() => "The daemon cannot be reached.");
  if (problem) {
    render(html`<${SignedOut} problem=${problem} />`, root);
    return;
  }
  // A guest has one session, and came for it.
  if (me.value?.sessionId && route.value.name === "inbox") go(`/session/${me.value.sessionId}`);
  connection.onOnline = () => watchSessions().catch((error) => say(error.message, "error"));
  connection.onFrame = (frame) => {
    if (frame.type !== "session_row") return;
    const row = frame.payload.session ?? frame.payload;
    if (frame.payload.deleted) dropRow(row.sessionId);
    else putRow(row);
  };
  effect(() => {
    route.value;
    if (isListed.value) untracked(openSession);
  });
  connection.open();
  watchAttention();
  listenForKeys();
  render(html`<${App} />`, root);
}

// A link that is pasted into a page that is open changes nothing but the fragment.
addEventListener("hashchange", () => {
  if (hasToken()) location.reload();
});
start();
