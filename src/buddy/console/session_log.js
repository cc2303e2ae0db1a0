// @ts-check
/**
 * One session's log in memory: the end first, so that it can be shown at once, then the past in the background; the view
 * of now, and the view of any point before.
 *
 * Invariant: `events` is gapless and in order, and both views are folds of a beginning of it.
 */

import { signal } from "./vendor/preact.js";
import { apply, applyToChild, emptyView, fold } from "./fold.js";

const TAIL = 500;
const PAGE = 1000;

export class SessionLog {
  /** @param {import("./connection.js").Connection} connection @param {string} sessionId @param {number} lastSeq Its last event, as far as known. */
  constructor(connection, sessionId, lastSeq) {
    this.sessionId = sessionId;
    /** Counts the frames in which something changed. */
    this.tick = signal(0);
    /** Whether the whole past is here. */
    this.isComplete = signal(false);
    this.problem = signal("");
    /** The event in view; 0 follows what happens. */
    this.at = signal(0);
    /** @type {import("./fold.js").LogEvent[]} */ this.events = [];
    /** Questions of sub-agents, which stand in their own logs. @type {import("./fold.js").LogEvent[]} */ this._asked = [];
    this._live = emptyView();
    this._past = emptyView();
    this._connection = connection;
    this._start = Math.max(0, lastSeq - TAIL);
    this._isDirty = false;
    this._isClosed = false;
    this._isAttached = false;
    /** @type {import("./connection.js").Follower} */ this._follower = {
      cursor: () => this.events.at(-1)?.seq ?? this._start,
      onEvent: (event) => this._receive(event),
      onChildEvent: (event) => this._receiveOfChild(event),
      onAttached: (reply) => this._attached(reply.replay),
      onLost: (error) => (this.problem.value = error.message),
    };
    connection.follow(sessionId, this._follower);
  }

  close() {
    this._isClosed = true;
    this._connection.unfollow(this.sessionId);
  }

  /** The view of now. */
  get live() {
    this.tick.value;
    return this._live;
  }

  /** The view of the point that is looked at. */
  get view() {
    return this.at.value ? this._seek(this.at.value) : this.live;
  }

  /** Look at the session as it was after an event; 0 goes back to now. @param {number} seq */
  look(seq) {
    this.at.value = seq && seq < (this.events.at(-1)?.seq ?? 0) ? Math.max(seq, this.events[0]?.seq ?? 1) : 0;
  }

  /** @param {number} seq */
  _seek(seq) {
    if (this._past.lastSeq > seq || this._past.firstSeq !== this.events[0]?.seq) this._past = emptyView();
    const next = this._past.lastSeq ? this._past.lastSeq + 1 - this.events[0].seq : 0;
    const end = seq + 1 - this.events[0].seq;
    for (let at = next; at < end && at < this.events.length; at++) apply(this._past, this.events[at]);
    return this._past;
  }

  /** After a gap, what is here may be pruned, or lost; the past is read again. @param {{gap: boolean, fromSeq: number}} replay */
  _attached({ gap, fromSeq }) {
    this._isAttached = true;
    if (gap) {
      this.events = [];
      this._live = emptyView();
      this._past = emptyView();
      this._start = fromSeq - 1;
      this.isComplete.value = false;
      this.at.value = 0;
    }
    this._loadPast();
  }

  /** @param {import("./fold.js").LogEvent} event */
  _receive(event) {
    const last = this.events.at(-1)?.seq ?? this._start;
    if (event.seq !== last + 1) {
      // A connection that has just started a session, or written to it, receives what is new before the replay, too.
      // After the replay, what is missing was pruned before it was sent.
      if (this._isAttached && event.seq > last + 1) this._attachAgain();
      return;
    }
    this.events.push(event);
    apply(this._live, event);
    this._show();
  }

  _attachAgain() {
    this._isAttached = false;
    this._connection.follow(this.sessionId, this._follower);
  }

  /** @param {import("./fold.js").LogEvent} event */
  _receiveOfChild(event) {
    if (this._asked.some((one) => one.sessionId === event.sessionId && one.seq === event.seq)) return;
    if (!applyToChild(this._live, event)) return;
    this._asked.push(event);
    this._show();
  }

  _show() {
    if (this._isDirty) return;
    this._isDirty = true;
    const draw = () => {
      this._isDirty = false;
      this.tick.value += 1;
    };
    // A hidden page gets no frames, but its title still says who waits.
    if (document.visibilityState === "visible") requestAnimationFrame(draw);
    else setTimeout(draw, 500);
  }

  async _loadPast() {
    if (this.isComplete.value) return;
    // What is shown first comes first.
    await new Promise((resolve) => setTimeout(resolve, 300));
    if (!this._start) {
      this.isComplete.value = true;
      return;
    }
    /** @type {import("./fold.js").LogEvent[]} */
    const past = [];
    const start = this._start;
    let after = 0;
    while (after < start && !this._isClosed) {
      const limit = Math.min(PAGE, start - after);
      const page = await this._connection.request("read_events", { after, limit }, this.sessionId, { repeat: true });
      if (!page.events.length) break;
      past.push(...page.events.filter((/** @type {any} */ event) => event.seq <= start));
      after = page.events.at(-1).seq;
    }
    if (this._isClosed || this.isComplete.value || start !== this._start) return;
    const first = this.events[0]?.seq ?? start + 1;
    this.events = [...past.filter((event) => event.seq < first), ...this.events];
    this._live = fold(this.events);
    for (const event of this._asked) applyToChild(this._live, event);
    this.isComplete.value = true;
    this._show();
  }
}
