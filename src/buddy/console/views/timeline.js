// @ts-check
/**
 * What happened, as rows. Only some hundred are on the page at a time: rows cost, events do not.
 *
 * Invariant: new rows never move what somebody is reading; the end is followed only while it is in view.
 */

import { html, useEffect, useLayoutEffect, useRef, useState } from "../vendor/preact.js";
import { plural } from "../text.js";
import { Entry } from "./entries.js";

const STEP = 60;
// Fewer during time travel: every step redraws them.
const PAST_STEP = 40;
const MOST = 300;
const NEAR = 600;

/** @param {{log: import("../session_log.js").SessionLog}} props */
export function Timeline({ log }) {
  const view = log.view;
  const items = view.items;
  const at = log.at.value;
  const [end, setEnd] = useState(/** @type {number | null} */ (null));
  const [size, setSize] = useState(STEP);
  const element = useRef(/** @type {HTMLElement | null} */ (null));
  const isFollowing = useRef(true);
  const rows = at && end === null ? Math.min(size, PAST_STEP) : size;
  const last = end === null ? items.length : Math.min(end, items.length);
  const first = Math.max(0, last - rows);

  useLayoutEffect(() => {
    const place = element.current;
    if (place && isFollowing.current && end === null) place.scrollTop = place.scrollHeight;
  });
  useEffect(() => toEnd(), [at]);

  const toEnd = () => {
    isFollowing.current = true;
    setEnd(null);
    setSize(STEP);
    if (element.current) element.current.scrollTop = element.current.scrollHeight;
  };
  const scroll = () => {
    const place = /** @type {HTMLElement} */ (element.current);
    const below = place.scrollHeight - place.scrollTop - place.clientHeight;
    isFollowing.current = below < 40 && end === null;
    if (place.scrollTop < NEAR && first > 0) {
      if (size + STEP > MOST) setEnd(Math.max(MOST, last - STEP));
      setSize(Math.min(size + STEP, MOST));
    } else if (below < NEAR && end !== null) {
      setEnd(end + STEP >= items.length ? null : end + STEP);
    } else if (!isFollowing.current && end === null && below > NEAR) {
      setEnd(items.length);
    }
  };
  const hidden = items.length - last;
  return html`<div class="timeline-place">
    <div class="timeline" ref=${element} onScroll=${scroll} role="log" aria-label="Timeline" aria-live="off" tabindex="0">
      ${log.isComplete.value || first > 0 ? null : html`<p class="muted loading">Loading earlier events…</p>`}
      ${first > 0 ? html`<p class="muted loading">${plural(first, "earlier entry").replace("entrys", "entries")}</p>` : null}
      ${items.slice(first, last).map((item) => html`<${Entry} key=${item.key} item=${item} version=${item.version} log=${log} isPast=${Boolean(at)} />`)}
      ${view.active && !at ? html`<p class="activity" aria-live="polite"><span class="spinner" aria-hidden="true"></span>${view.activity || "Working…"}</p>` : null}
      ${items.length ? null : html`<p class="muted empty">No activity yet.</p>`}
    </div>
    ${end !== null ? html`<button class="to-end" onClick=${toEnd}>↓ ${hidden ? `${hidden} more` : "To the end"}</button>` : null}
  </div>`;
}
