// @ts-check
/**
 * The protocol over one WebSocket that comes back: after a lost connection every followed session is attached again from
 * its cursor, so nothing is missed and nothing is shown twice.
 */

import { signal } from "./vendor/preact.js";

const VERSION = "push.runtime.v1";
const FIRST_WAIT = 300;
const LONGEST_WAIT = 10_000;
const PING_EVERY = 20_000;
const PONG_WITHIN = 5_000;

/** A refused request, as the runtime words it. */
export class RequestError extends Error {
  /** @param {{code: string, message: string, detail?: string | null}} error */
  constructor(error) {
    super(error.message);
    this.code = error.code;
    this.detail = error.detail ?? "";
  }
}

/** @typedef {{resolve: (payload: any) => void, reject: (error: Error) => void, line: string, repeat: boolean}} Pending */
/** @typedef {{cursor: () => number, onEvent: (event: any) => void, onChildEvent: (event: any) => void, onAttached: (reply: any) => void, onLost: (error: RequestError) => void}} Follower */

export class Connection {
  /** @param {() => Promise<boolean>} isSignedIn Whether the server still knows this browser. */
  constructor(isSignedIn) {
    /** @type {import("./vendor/preact.js").Signal<"connecting" | "online" | "offline" | "signed-out">} */
    this.state = signal("connecting");
    /** When the next attempt is made; 0 while one is under way. */
    this.retryAt = signal(0);
    /** @type {any} */ this.hello = null;
    /** @type {() => void} */ this.onOnline = () => {};
    /** @type {(frame: any) => void} */ this.onFrame = () => {};
    this._isSignedIn = isSignedIn;
    this._wait = FIRST_WAIT;
    this._number = 0;
    this._lastHeard = 0;
    /** @type {WebSocket | null} */ this._socket = null;
    /** @type {Map<string, Pending>} */ this._pending = new Map();
    /** @type {Map<string, Follower>} */ this._followed = new Map();
    /** @type {ReturnType<typeof setTimeout> | undefined} */ this._timer = undefined;
    addEventListener("online", () => this.wake());
    addEventListener("offline", () => this._drop());
    document.addEventListener("visibilitychange", () => document.visibilityState === "visible" && this.wake());
    document.addEventListener("visibilitychange", () => this._sayAttention());
    setInterval(() => document.visibilityState === "visible" && this._probe(), PING_EVERY);
  }

  open() {
    clearTimeout(this._timer);
    this.retryAt.value = 0;
    if (this.state.value !== "offline") this.state.value = "connecting";
    const scheme = location.protocol === "https:" ? "wss" : "ws";
    const socket = new WebSocket(`${scheme}://${location.host}/ws`, [VERSION]);
    this._socket = socket;
    socket.onopen = () => this._join(socket);
    socket.onmessage = (message) => this._receive(socket, message.data);
    socket.onclose = () => this._closed(socket);
  }

  /** The page is looked at again, or the network is back: a connection that looks open may be dead. */
  wake() {
    if (this.state.value === "online") this._probe();
    else if (this.state.value === "offline") this.open();
  }

  /**
   * @param {string} type @param {Record<string, any>} [payload] @param {string} [sessionId]
   * @param {{repeat?: boolean}} [options] With `repeat` it is sent again after a lost connection: only for what is safe twice.
   * @returns {Promise<any>}
   */
  request(type, payload = {}, sessionId, { repeat = false } = {}) {
    return new Promise((resolve, reject) => {
      const requestId = `req_${++this._number}`;
      const line = JSON.stringify({ v: VERSION, kind: "request", requestId, type, ...(sessionId ? { sessionId } : {}), payload });
      if (this.state.value !== "online" && !repeat && type !== "hello") {
        reject(new Error("Not connected. Try again once the connection is restored."));
        return;
      }
      this._pending.set(requestId, { resolve, reject, line, repeat });
      if (this.state.value === "online" || type === "hello") this._socket?.send(line);
    });
  }

  /** Receive a session's events, on this connection and on every later one. @param {string} sessionId @param {Follower} follower */
  follow(sessionId, follower) {
    this._followed.set(sessionId, follower);
    if (this.state.value === "online") this._attach(sessionId, follower);
  }

  /** @param {string} sessionId */
  unfollow(sessionId) {
    this._followed.delete(sessionId);
  }

  /** @param {string} sessionId @param {Follower} follower */
  async _attach(sessionId, follower) {
    try {
      follower.onAttached(await this.request("attach_session", { sessionId, lastSeenSeq: follower.cursor() }, sessionId));
    } catch (error) {
      if (error instanceof RequestError) follower.onLost(error);
    }
  }

  /** @param {WebSocket} socket */
  async _join(socket) {
    const capabilities = ["stream_tokens", "approvals", "replay_attach"];
    try {
      this.hello = await this.request("hello", { clientName: "console", clientVersion: "1", capabilities });
    } catch {
      socket.close();
      return;
    }
    this.state.value = "online";
    this._wait = FIRST_WAIT;
    for (const pending of this._pending.values()) socket.send(pending.line);
    for (const [sessionId, follower] of this._followed) this._attach(sessionId, follower);
    this._sayAttention();
    this.onOnline();
  }

  /** While somebody looks at a session, no notification is sent about it. */
  _sayAttention() {
    if (this.state.value !== "online" || !this.hello?.capabilities.includes("attention")) return;
    this.request("set_attention", { looking: document.visibilityState === "visible" }).catch(() => {});
  }

  /** @param {WebSocket} socket @param {string} data */
  _receive(socket, data) {
    if (socket !== this._socket) return;
    this._lastHeard = Date.now();
    const frame = JSON.parse(data);
    if (frame.kind === "event" && typeof frame.seq === "number") {
      const follower = this._followed.get(frame.sessionId);
      if (follower) follower.onEvent(frame);
      // A sub-agent of a session that is followed: what it asks is asked there.
      else for (const one of this._followed.values()) one.onChildEvent(frame);
    } else if (frame.kind === "response") {
      const pending = this._pending.get(frame.requestId);
      this._pending.delete(frame.requestId);
      if (frame.ok) pending?.resolve(frame.payload);
      else pending?.reject(new RequestError(frame.error));
    } else {
      this.onFrame(frame);
    }
  }

  async _probe() {
    if (this.state.value !== "online") return;
    const socket = this._socket;
    const sent = Date.now();
    this.request("ping").catch(() => {});
    setTimeout(() => {
      if (socket === this._socket && this._lastHeard < sent) this._drop();
    }, PONG_WITHIN);
  }

  /** Give up on a socket that may never say that it is closed. */
  _drop() {
    const socket = this._socket;
    if (!socket) return;
    socket.onclose = null;
    socket.close();
    this._closed(socket);
  }

  /** @param {WebSocket} socket */
  async _closed(socket) {
    if (socket !== this._socket) return;
    this._socket = null;
    for (const [requestId, pending] of this._pending) {
      if (pending.repeat) continue;
      this._pending.delete(requestId);
      pending.reject(new Error("Connection lost before a reply arrived."));
    }
    this.state.value = "offline";
    const isKnown = await this._isSignedIn().catch(() => true);
    if (!isKnown) {
      this.state.value = "signed-out";
      return;
    }
    this._retry();
  }

  _retry() {
    const wait = this._wait * (0.75 + Math.random() / 2);
    this._wait = Math.min(this._wait * 2, LONGEST_WAIT);
    this.retryAt.value = Date.now() + wait;
    clearTimeout(this._timer);
    this._timer = setTimeout(() => this.open(), wait);
  }
}
