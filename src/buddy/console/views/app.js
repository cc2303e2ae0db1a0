// @ts-check
/** The frame of the page: list, what is open, and what lies over both. */

import { html, useEffect, useState } from "../vendor/preact.js";
import { connection, dialog, go, isOwner, mayStart, me, message, route } from "../store.js";
import { duration } from "../text.js";
import { Inbox } from "./inbox.js";
import { lazy } from "./lazy.js";
import { Nodes } from "./nodes.js";
import { SignedOut } from "./signed_out.js";

const Approvals = lazy(() => import("./approvals.js"), "Approvals");
const Help = lazy(() => import("./help.js"), "Help");
const Session = lazy(() => import("./session.js"), "Session");
const StartSession = lazy(() => import("./start.js"), "StartSession");

export function App() {
  if (connection.state.value === "signed-out") return html`<${SignedOut} problem="You are signed out." />`;
  const { name } = route.value;
  return html`
    <div class="shell" data-place=${name}>
      <a class="skip" href="#main" onClick=${skip}>Skip to the session</a>
      <nav class="sidebar" aria-label="Sessions"><${Inbox} /></nav>
      <main id="main" class="main" tabindex="-1">
        <${Lost} />
        ${name === "session" ? html`<${Session} />` : name === "approvals" ? html`<${Approvals} />` : html`<${Nothing} />`}
      </main>
    </div>
    ${dialog.value === "help" ? html`<${Help} />` : null} ${dialog.value === "start" ? html`<${StartSession} />` : null}
    <div class="toast-place" aria-live="polite">
      ${message.value ? html`<p class=${`toast ${message.value.level}`}>${message.value.text}</p>` : null}
    </div>
  `;
}

/** @param {Event} event */
function skip(event) {
  event.preventDefault();
  document.getElementById("main")?.focus();
}

/** Says that the connection is gone, and when it is tried again. */
function Lost() {
  const state = connection.state.value;
  const [left, setLeft] = useState(0);
  useEffect(() => {
    if (state !== "offline") return;
    const timer = setInterval(() => setLeft(Math.max(0, connection.retryAt.peek() - Date.now())), 250);
    return () => clearInterval(timer);
  }, [state]);
  if (state === "online" || state === "connecting") return null;
  const when = connection.retryAt.value && left > 0 ? `retrying in ${duration(left)}.` : "retrying…";
  return html`<div class="lost" role="status">
    <span>Connection lost; ${when} Missed events will be loaded.</span>
    <button class="quiet" onClick=${() => connection.open()}>Retry now</button>
  </div>`;
}

function Nothing() {
  return html`<div class="nothing">
    <h1>Buddy</h1>
    <p>Choose a session, or start one.</p>
    ${mayStart.value ? html`<button class="primary" onClick=${() => (dialog.value = "start")}>New session</button>` : null}
    <p class="muted">Press <kbd>?</kbd> for the keys.</p>
    ${me.value?.sessionId ? html`<button onClick=${() => go(`/session/${me.value?.sessionId}`)}>Open the shared session</button>` : null}
    ${isOwner.value ? html`<${Nodes} />` : null}
  </div>`;
}
