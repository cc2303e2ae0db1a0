// @ts-check
/** Time travel: a slider over the whole log, with marks; everything else on the page follows it. */

import { html, useEffect, useState } from "../vendor/preact.js";
import { connection, go, mayDrive } from "../store.js";
import { clock, visible } from "../text.js";
import { Icon } from "./icon.js";
import { fork } from "./session.js";

const SPEEDS = [0.5, 1, 2, 5, 20];
/** A pause in the log lasts no longer than this when it is played. */
const LONGEST_PAUSE = 800;
const SHORTEST_STEP = 16;
const MOST_MARKS = 400;

/** @typedef {{seq: number, kind: string, label: string}} Mark */

/** @param {{log: import("../session_log.js").SessionLog}} props */
export function Travel({ log }) {
  const [isPlaying, setPlaying] = useState(false);
  const [speed, setSpeed] = useState(1);
  const [marks, setMarks] = useState(/** @type {Mark[]} */ ([]));
  const isComplete = log.isComplete.value;
  const first = log.events[0]?.seq ?? 1;
  const last = log.events.at(-1)?.seq ?? 1;
  const at = log.at.value || last;

  useEffect(() => {
    connection.request("list_marks", {}, log.sessionId).then((reply) => setMarks(reply.marks), () => setMarks([]));
  }, [log.sessionId, isComplete, log.live.active]);
  useEffect(() => {
    if (isPlaying) return play(log, speed, () => setPlaying(false));
  }, [isPlaying, speed]);
  useEffect(() => {
    const timer = setTimeout(() => {
      if (log.at.value) history.replaceState(null, "", `/session/${log.sessionId}#${log.at.value}`);
    }, 300);
    return () => clearTimeout(timer);
  }, [at]);

  const toggle = () => {
    if (!isPlaying && !log.at.value) log.look(first);
    setPlaying(!isPlaying);
  };
  const toMark = (/** @type {number} */ step) => {
    const next = step > 0 ? marks.find((mark) => mark.seq > at) : marks.findLast((mark) => mark.seq < at);
    log.look(next?.seq ?? (step > 0 ? 0 : first));
  };
  const event = log.events[at - first];
  const here = marks.findLast((mark) => mark.seq <= at);
  return html`<section class="travel" aria-label="Time travel">
    <div class="marks" aria-hidden="true">
      ${thin(marks).map((mark) => html`<span class=${`mark ${mark.kind}`} style=${{ left: `${(100 * (mark.seq - first)) / Math.max(1, last - first)}%` }} title=${visible(mark.label)}></span>`)}
    </div>
    <input type="range" min=${first} max=${last} value=${at} disabled=${!isComplete} aria-label="Point in the session"
      aria-valuetext=${`Event ${at} of ${last}${here ? `, ${visible(here.label)}` : ""}`}
      onInput=${(/** @type {any} */ change) => { setPlaying(false); log.look(Number(change.target.value)); }} />
    <p class="travel-place" title=${here ? visible(here.label) : null}>${isComplete ? `${at.toLocaleString("en")} of ${last.toLocaleString("en")}` : "Loading history…"}${event ? html` · <time>${clock(event.ts)}</time>` : null}${here ? html` · <span class="muted">${visible(here.label)}</span>` : null}</p>
    <div class="travel-actions">
      <button data-key="mark-before" aria-label="Previous mark" onClick=${() => toMark(-1)}><${Icon} name="first" /></button>
      <button aria-label="Previous event" onClick=${() => log.look(at - 1)}><${Icon} name="back" /></button>
      <button class="primary" aria-label=${isPlaying ? "Pause" : "Play"} onClick=${toggle} disabled=${!isComplete}><${Icon} name=${isPlaying ? "pause" : "play"} /></button>
      <button aria-label="Next event" onClick=${() => log.look(at + 1)}><${Icon} name="on" /></button>
      <button data-key="mark-after" aria-label="Next mark" onClick=${() => toMark(1)}><${Icon} name="last" /></button>
      <select aria-label="Speed" value=${speed} onChange=${(/** @type {any} */ change) => setSpeed(Number(change.target.value))}>
        ${SPEEDS.map((value) => html`<option value=${value}>${value}×</option>`)}
      </select>
      ${mayDrive.value ? html`<button onClick=${() => fork(log.sessionId, at)}>Fork from here</button>` : null}
      <button onClick=${() => { setPlaying(false); log.look(0); go(`/session/${log.sessionId}`); }} disabled=${!log.at.value}>Live</button>
    </div>
  </section>`;
}

/** Step on by the recorded times, with pauses cut short. @param {import("../session_log.js").SessionLog} log @param {number} speed @param {() => void} onEnd */
function play(log, speed, onEnd) {
  /** @type {ReturnType<typeof setTimeout>} */
  let timer;
  const step = () => {
    const first = log.events[0]?.seq ?? 1;
    let at = (log.at.value || first) - first;
    const began = log.events[at]?.ts ?? 0;
    let wait = 0;
    // Several events within one frame are one step.
    do {
      at += 1;
      wait = at < log.events.length ? Math.min(log.events[at].ts - began, LONGEST_PAUSE) / speed : 0;
    } while (at < log.events.length && wait < SHORTEST_STEP);
    if (at >= log.events.length) {
      log.look(0);
      onEnd();
      return;
    }
    timer = setTimeout(() => {
      log.look(first + at);
      step();
    }, wait);
  };
  step();
  return () => clearTimeout(timer);
}

/** @param {Mark[]} marks */
function thin(marks) {
  if (marks.length <= MOST_MARKS) return marks;
  const rare = marks.filter((mark) => mark.kind !== "turn");
  const every = Math.ceil(marks.length / MOST_MARKS);
  return rare.length > MOST_MARKS ? rare.filter((_, at) => at % Math.ceil(rare.length / MOST_MARKS) === 0) : [...rare, ...marks.filter((mark, at) => mark.kind === "turn" && at % every === 0)];
}
