// @ts-check
/**
 * The pure fold from events to what the page shows. The first half of a view is the same as the one of the Python
 * client (`buddy/client/view.py`), and both are tested with the same recorded logs; the second half is the timeline.
 *
 * Invariants: duplicates change nothing; unknown events are ignored; an item that changes gets a new `version`, so that
 * only its row is drawn again; nothing here reads a clock or the page.
 */

/**
 * @typedef {{v: string, kind: "event", sessionId: string, runId?: string, seq: number, ts: number, type: string, payload: any}} LogEvent
 * @typedef {{key: string, kind: string, seq: number, ts: number, version: number, runId: string, [more: string]: any}} Item
 * @typedef {{runId: string, prompt: string, text: string, thinking: string, finishedText: string, turns: number, inputTokens: number, outputTokens: number, costUsd: number | null, budget: any, startedTs: number, endedTs: number, complete: any}} Run
 * @typedef {{turn: number, seq: number, input: number, output: number, costUsd: number | null, used: number, limit: number}} Turn
 */

/** @type {Record<string, string>} */
const STATE_AFTER = { success: "completed", failed: "failed", denied: "failed", cancelled: "cancelled" };
const FILE_TOOLS = new Set(["write_file", "edit_file"]);
const LIVE_OUTPUT = 20_000;

export function emptyView() {
  return {
    sessionId: "",
    lastSeq: 0,
    firstSeq: 0,
    lastTs: 0,
    isAfterGap: false,
    state: "idle",
    isHeadless: false,
    /** @type {string | null} */ active: null,
    /** @type {Map<string, Run>} */ runs: new Map(),
    /** @type {Map<string, any>} */ approvals: new Map(),
    /** @type {Map<string, any>} */ children: new Map(),
    /** @type {Map<string, any>} */ questions: new Map(),

    title: "",
    archived: false,
    root: "",
    model: "",
    profile: "",
    sandbox: "",
    policy: "",
    policyUntil: 0,
    isPlan: false,
    activity: "",
    inputTokens: 0,
    outputTokens: 0,
    /** @type {number | null} */ costUsd: null,
    /** @type {{used: number, limit: number, assumed?: boolean} | null} */ context: null,
    /** @type {Turn[]} */ turns: [],
    /** @type {Map<string, {path: string, changes: number, seq: number}>} */ files: new Map(),
    fileSteps: 0,
    /** @type {Item[]} */ items: [],
    /** @type {Map<string, Item>} */ calls: new Map(),
    /** @type {Item | null} */ reply: null,
    version: 0,
  };
}

/** @typedef {ReturnType<typeof emptyView>} View */

/**
 * Apply an event; false if it was applied before.
 * @param {View} view
 * @param {LogEvent} event
 */
export function apply(view, event) {
  const isGap = event.type === "warning" && event.payload.code === "EVENT_GAP";
  if (event.seq <= view.lastSeq && !(isGap && event.ts > view.lastTs)) return false;
  // Otherwise it was announced to another client.
  if (isGap) view.isAfterGap = event.seq !== view.lastSeq + 1;
  view.firstSeq ||= event.seq;
  view.lastSeq = event.seq;
  view.lastTs = event.ts;
  view.version += 1;
  applyToSession(view, event);
  if (event.runId) applyToRun(view, event.runId, event);
  TIMELINE[event.type]?.(view, event, event.payload);
  return true;
}

/**
 * Apply an event of a sub-agent that is not open itself: its questions are asked here, too.
 * @param {View} view
 * @param {LogEvent} event
 */
export function applyToChild(view, { type, payload, sessionId, runId, ts }) {
  const known = view.approvals.get(payload.approvalId);
  if (type === "approval_required" && payload.parent) {
    view.approvals.set(payload.approvalId, { ...payload, sessionId, runId });
    view.items.push({
      key: `child-${payload.approvalId}`, kind: "asked", seq: view.lastSeq, ts, version: 0, runId: runId ?? "",
      sessionId, name: payload.title, args: {}, callId: "", approval: payload, state: "waiting", decision: null,
    });
  } else if ((type === "approval_received" || type === "approval_expired") && known) {
    view.approvals.delete(payload.approvalId);
    const item = view.items.findLast((one) => one.key === `child-${payload.approvalId}`);
    const decision = type === "approval_expired" ? { decision: "expired", by: "timeout" } : payload;
    if (item) change(item, () => Object.assign(item, { decision: { ...decision, ts }, state: decision.decision === "approve" ? "approved" : "denied" }));
  } else if (type === "question_asked" && payload.parent) {
    view.questions.set(payload.questionId, payload);
    view.items.push({
      key: `child-${payload.questionId}`, kind: "question", seq: view.lastSeq, ts, version: 0, runId: runId ?? "",
      sessionId, question: payload, answer: null,
    });
  } else if (type === "question_answered" && view.questions.delete(payload.questionId)) {
    const item = view.items.findLast((one) => one.key === `child-${payload.questionId}`);
    if (item) change(item, () => (item.answer = payload));
  } else {
    return false;
  }
  view.version += 1;
  return true;
}

/** @param {LogEvent[]} events */
export function fold(events) {
  const view = emptyView();
  for (const event of events) apply(view, event);
  return view;
}

// --- as in the Python client -----------------------------------------------------------------------------------------

/** What waits after a gap is what the snapshot says. @param {View} view @param {any} pending */
function startOver(view, pending) {
  if (view.isAfterGap) {
    view.isAfterGap = false;
    view.approvals.clear();
    view.children.clear();
    view.questions.clear();
  }
  if (pending && !view.approvals.has(pending.approvalId)) view.approvals.set(pending.approvalId, pending);
}

/** @param {View} view @param {LogEvent} event */
function applyToSession(view, { type, payload }) {
  switch (type) {
    case "session_started":
      view.sessionId = payload.sessionId;
      view.state = payload.state;
      view.isHeadless = payload.mode === "headless";
      break;
    case "session_snapshot":
      view.state = payload.state;
      view.active = payload.activeRunId ?? null;
      startOver(view, payload.pendingApproval);
      break;
    case "approval_required":
      view.approvals.set(payload.approvalId, payload);
      view.state = "awaiting_approval";
      break;
    case "approval_received":
    case "approval_expired":
      if (view.approvals.delete(payload.approvalId) && ![...view.approvals.values()].some((asked) => !asked.parent)) view.state = "running";
      break;
    case "child_started":
      view.children.set(payload.sessionId, payload);
      break;
    case "child_finished":
      view.children.delete(payload.sessionId);
      for (const [id, asked] of view.approvals) if ([asked.sessionId, asked.parent].includes(payload.sessionId)) view.approvals.delete(id);
      for (const [id, asked] of view.questions) if (asked.sessionId === payload.sessionId) view.questions.delete(id);
      break;
    case "question_asked":
      view.questions.set(payload.questionId, payload);
      break;
    case "question_answered":
      view.questions.delete(payload.questionId);
      break;
    case "run_started":
      view.active = payload.runId;
      view.state = "running";
      break;
    case "run_complete":
      view.active = null;
      view.approvals.clear();
      view.children.clear();
      view.questions.clear();
      view.state = view.isHeadless ? STATE_AFTER[payload.outcome] : "idle";
      break;
  }
}

/** @param {View} view @param {string} runId @param {LogEvent} event */
function applyToRun(view, runId, { type, payload, ts }) {
  switch (type) {
    case "assistant_token":
      runOf(view, runId).text += payload.text;
      break;
    case "thinking_token":
      runOf(view, runId).thinking += payload.text;
      break;
    case "user_message":
      runOf(view, runId).prompt ||= payload.text;
      break;
    case "run_started":
      runOf(view, runId).startedTs ||= ts;
      break;
    case "assistant_restart":
      endReply(runOf(view, runId));
      break;
    case "assistant_message":
      runOf(view, runId).finishedText = payload.text;
      endReply(runOf(view, runId));
      break;
    case "model_request": {
      const run = runOf(view, runId);
      if ((payload.purpose ?? "reply") === "reply") run.turns = Math.max(run.turns, payload.turn);
      if (payload.reservedCostUsd != null) run.costUsd ??= 0; // the price is known
      break;
    }
    case "usage":
      count(runOf(view, runId), payload);
      break;
    case "child_finished": {
      const run = runOf(view, runId);
      run.inputTokens += payload.usage.inputTokens ?? 0;
      run.outputTokens += payload.usage.outputTokens ?? 0;
      run.costUsd = addCost(run.costUsd, payload.costUsd);
      break;
    }
    case "run_complete":
      Object.assign(runOf(view, runId), { complete: payload, endedTs: ts });
      break;
  }
}

/** @param {Run} run */
function endReply(run) {
  run.text = run.thinking = "";
}

/** @param {Run} run @param {any} usage */
function count(run, usage) {
  run.turns = Math.max(run.turns, usage.turn);
  run.budget = usage.budget;
  run.inputTokens += usage.inputTokens;
  run.outputTokens += usage.outputTokens;
  run.costUsd = addCost(run.costUsd, usage.costUsd);
}

/** @param {number | null} sum @param {number | null | undefined} more */
function addCost(sum, more) {
  return more == null ? sum : (sum ?? 0) + more;
}

/** @param {View} view @param {string} runId @returns {Run} */
function runOf(view, runId) {
  let run = view.runs.get(runId);
  if (!run) {
    run = {
      runId, prompt: "", text: "", thinking: "", finishedText: "", turns: 0, inputTokens: 0, outputTokens: 0,
      costUsd: null, budget: null, startedTs: 0, endedTs: 0, complete: null,
    };
    view.runs.set(runId, run);
  }
  return run;
}

// --- the timeline ----------------------------------------------------------------------------------------------------

/** @type {Record<string, (view: View, event: LogEvent, payload: any) => void>} */
const TIMELINE = {
  session_started(view, event, started) {
    const options = started.options ?? {};
    view.root = started.repo?.rootPath ?? "";
    view.profile = options.profile ?? started.provider;
    view.model = options.model ?? "";
    view.sandbox = options.sandbox ?? started.sandboxProvider;
    view.policy = options.approvalPolicy ?? "";
    view.isPlan = Boolean(options.plan);
  },
  session_renamed(view, event, renamed) {
    view.title = renamed.title;
  },
  session_archived(view, event, changed) {
    view.archived = changed.archived;
  },
  session_forked(view, event, forked) {
    note(view, event, "info", `Forked from ${forked.fromSessionId} at event ${forked.fromSeq}`);
  },
  user_message(view, event, message) {
    add(view, event, "user", { text: message.text, by: message.by, steers: Boolean(message.steers), images: message.attachments, blobs: message.blobs });
  },
  run_started(view, event, started) {
    view.model = started.options?.model ?? view.model;
    view.profile = started.options?.profile ?? view.profile;
    view.sandbox = started.options?.sandbox ?? view.sandbox;
    if (started.recovered) note(view, event, "info", "Resuming the interrupted run");
  },
  run_cancelling(view, event, cancelling) {
    view.activity = "Stopping…";
    note(view, event, "info", `Stopping, requested by ${cancelling.by}`);
  },
  model_request(view, event, request) {
    view.model = request.model;
    view.profile = request.profile;
    view.activity = request.purpose === "summary" ? "Summarizing…" : "Thinking…";
    if (request.attempt > 1) {
      note(view, event, "warn", `Retrying in ${((request.waitMs ?? 0) / 1000).toFixed(1)} s: ${request.reason ?? "no reply"}`);
    }
  },
  thinking_token(view, event, token) {
    change(openReply(view, event), (reply) => (reply.thinking += token.text));
  },
  assistant_token(view, event, token) {
    view.activity = "Writing…";
    change(openReply(view, event), (reply) => (reply.text += token.text));
  },
  assistant_restart(view, event, restart) {
    if (view.reply) {
      const at = view.items.indexOf(view.reply, Math.max(0, view.items.length - 50));
      if (at >= 0) view.items.splice(at, 1);
      view.reply = null;
    }
    note(view, event, "warn", `Reply interrupted (${restart.reason}); asking again`);
  },
  assistant_message(view, event, message) {
    const calls = message.toolCalls ?? [];
    if (message.text || view.reply) {
      change(openReply(view, event), (reply) => {
        reply.text = message.text || reply.text;
        reply.isOpen = false;
        reply.truncated = Boolean(message.truncated);
        reply.blobs = message.blobs;
      });
      const reply = view.reply;
      if (reply && !reply.text && !reply.thinking) view.items.splice(view.items.indexOf(reply), 1);
    }
    view.reply = null;
    view.activity = calls.length ? `Calling ${calls.map((/** @type {any} */ call) => call.name).join(", ")}` : "";
  },
  tool_call(view, event, call) {
    const item = add(view, event, "call", {
      callId: call.callId ?? "", name: call.toolName, args: call.args, target: call.target, source: call.source,
      state: "open", output: "", text: "", isError: false, exitCode: null, durationMs: null, failure: null,
      approval: null, decision: null, callBlobs: call.blobs, blobs: null, outputBlob: null,
    });
    view.calls.set(item.callId || `${call.toolName}#${event.seq}`, item);
    view.activity = `Running ${call.toolName}`;
  },
  approval_required(view, event, approval) {
    const item = view.calls.get(approval.callId ?? "") ?? add(view, event, "approval", { callId: "", name: approval.title, state: "waiting", decision: null, args: {} });
    change(item, () => {
      item.approval = approval;
      item.state = "waiting";
      item.decision = null;
    });
    view.activity = "Waiting for approval";
  },
  approval_received(view, event, decision) {
    const item = itemOfApproval(view, decision);
    if (!item) return;
    change(item, () => {
      item.decision = { ...decision, ts: event.ts, seq: event.seq };
      item.state = decision.decision === "approve" ? "approved" : "denied";
    });
  },
  approval_expired(view, event, expired) {
    const item = itemOfApproval(view, expired);
    if (item) change(item, () => Object.assign(item, { state: "denied", decision: { decision: "expired", by: "timeout", ts: event.ts, seq: event.seq } }));
  },
  question_asked(view, event, question) {
    add(view, event, "question", { question, answer: null });
    view.activity = "Waiting for an answer";
  },
  question_answered(view, event, answer) {
    const item = view.items.findLast((/** @type {any} */ one) => one.question?.questionId === answer.questionId);
    if (item) change(item, () => (item.answer = answer));
  },
  approval_policy_changed(view, event, changed) {
    view.policy = changed.policy;
    view.policyUntil = changed.expiresAt ?? 0;
    if (changed.plan !== undefined) view.isPlan = Boolean(changed.plan);
    const what = changed.revoked ? `Grant ${changed.revoked} revoked by ${changed.by}` : `Approvals: ${changed.policy}, set by ${changed.by}`;
    note(view, event, "info", what);
  },
  tool_claimed(view, event, claimed) {
    const item = view.calls.get(claimed.callId);
    if (item) change(item, () => Object.assign(item, { state: "running", tier: claimed.tier }));
  },
  tool_output(view, event, output) {
    const item = view.calls.get(output.callId);
    if (!item) return;
    change(item, () => {
      item.state = "running";
      item.output = (item.output + output.text).slice(-LIVE_OUTPUT);
    });
  },
  tool_result(view, event, result) {
    const item = view.calls.get(result.callId ?? "") ?? lastCall(view, result.toolName);
    if (!item) return;
    change(item, () => {
      Object.assign(item, {
        state: stateOf(result), text: result.text, isError: result.isError, exitCode: result.exitCode ?? null,
        durationMs: result.durationMs, failure: result.structuredError, blobs: result.blobs, outputBlob: result.output ?? null,
        output: "", endSeq: event.seq,
      });
    });
    const path = item.args?.path ?? item.approval?.details?.path;
    if (!result.isError && path && (FILE_TOOLS.has(item.name) || item.approval?.kind === "write")) {
      const known = view.files.get(path);
      view.files.set(path, { path, changes: (known?.changes ?? 0) + 1, seq: event.seq });
    }
  },
  child_started(view, event, child) {
    add(view, event, "child", { agent: child.agent, child: child.sessionId, outcome: "" });
  },
  child_finished(view, event, child) {
    view.inputTokens += child.usage.inputTokens ?? 0;
    view.outputTokens += child.usage.outputTokens ?? 0;
    view.costUsd = addCost(view.costUsd, child.costUsd);
    const item = view.items.findLast((one) => one.kind === "child" && one.child === child.sessionId);
    if (item) change(item, () => (item.outcome = child.outcome));
    for (const one of view.items) {
      if (one.sessionId === child.sessionId && one.state === "waiting") change(one, () => (one.state = "ended"));
    }
  },
  usage(view, event, usage) {
    view.inputTokens += usage.inputTokens;
    view.outputTokens += usage.outputTokens;
    view.costUsd = addCost(view.costUsd, usage.costUsd);
    view.context = usage.context;
    view.turns.push({
      turn: view.turns.length + 1, seq: event.seq, input: usage.inputTokens, output: usage.outputTokens,
      costUsd: usage.costUsd ?? null, used: usage.context.used, limit: usage.context.limit,
    });
  },
  progress(view, event, progress) {
    view.activity = progress.message;
  },
  status(view, event, status) {
    view.activity = status.detail || status.phase;
  },
  warning(view, event, warning) {
    if (warning.code === "EVENT_GAP") add(view, event, "gap", { text: warning.message });
    else note(view, event, "warn", warning.message, warning.detail);
  },
  files_changed(view, event, changed) {
    view.fileSteps += 1;
    const call = view.calls.get(changed.callId ?? "");
    const isCounted = call && FILE_TOOLS.has(call.name); // with its result
    for (const file of changed.files) {
      const known = view.files.get(file.path);
      if (known && isCounted) continue;
      view.files.set(file.path, { path: file.path, changes: (known?.changes ?? 0) + 1, seq: event.seq });
    }
    if (changed.overlaps?.length) note(view, event, "warn", "Another session worked here at the same time; some changes may not be from this call");
  },
  files_restored(view, event, restored) {
    view.fileSteps += 1;
    const count = restored.total ?? restored.files.length;
    const files = `${count} ${count === 1 ? "file" : "files"}`;
    const left = restored.conflicts?.length ? `Left alone: ${restored.conflicts.join(", ")}` : null;
    note(view, event, "info", `${restored.redo ? `Changed ${files} again` : `Restored ${files}`}${restored.recovered ? " (finished after a restart)" : ""}`, left);
  },
  hook_finished(view, event, hook) {
    const name = `${hook.event} hook ${hook.hook}`;
    if (hook.verdict === "failed") note(view, event, "warn", `${name} failed`, hook.reason);
    else if (hook.verdict === "changed") note(view, event, "info", `${name} changed the input`, hook.reason);
    else if (hook.verdict === "deny") note(view, event, "info", `${name} refused`, hook.reason);
    if (hook.message) note(view, event, "info", `${name}: ${hook.message}`);
  },
  error(view, event, error) {
    note(view, event, "error", error.message, error.detail);
  },
  recovery(view, event, recovery) {
    if (recovery.action === "unknown_outcome") note(view, event, "warn", recovery.message || "Unknown whether a call took effect");
    else note(view, event, "info", recovery.message || `Recovered: ${recovery.action}`);
  },
  model_switched(view, event, switched) {
    view.model = switched.after.model ?? view.model;
    view.profile = switched.after.profile ?? view.profile;
    note(view, event, "info", `Model: ${view.profile} · ${view.model}`);
  },
  session_resumed(view, event) {
    note(view, event, "info", "Session resumed");
  },
  session_compacted(view, event, compacted) {
    view.context = view.context && { ...view.context, used: compacted.afterTokens };
    const sizes = `${compacted.beforeTokens.toLocaleString("en")} → ${compacted.afterTokens.toLocaleString("en")} tokens`;
    note(view, event, "info", `${compacted.undo ? "Compaction undone" : "Compacted"}: ${sizes}`, compacted.summary);
  },
  acceptance_result(view, event, result) {
    add(view, event, "check", { name: result.id, passed: result.passed, exitCode: result.exitCode, output: result.output, round: result.round });
  },
  run_complete(view, event, complete) {
    const run = view.runs.get(complete.runId);
    if (view.reply) change(view.reply, (reply) => (reply.isOpen = false));
    view.reply = null;
    view.activity = "";
    for (const item of view.calls.values()) {
      if (item.runId === complete.runId && ["waiting", "open", "approved", "running"].includes(item.state)) {
        change(item, () => (item.state = "ended"));
      }
    }
    view.calls.clear();
    add(view, event, "end", {
      outcome: complete.outcome, summary: complete.summary, reason: complete.reason ?? "", limit: complete.limit ?? "",
      acceptance: complete.acceptance ?? null, turns: run?.turns ?? 0, costUsd: run?.costUsd ?? null,
      tokens: (run?.inputTokens ?? 0) + (run?.outputTokens ?? 0), durationMs: run?.startedTs ? event.ts - run.startedTs : 0,
      lastText: run?.finishedText ?? "",
    });
  },
};

/** @param {View} view @param {LogEvent} event @param {string} kind @param {Record<string, any>} fields @returns {Item} */
function add(view, event, kind, fields) {
  const item = { key: `${kind}-${event.seq}`, kind, seq: event.seq, ts: event.ts, runId: event.runId ?? "", version: 0, ...fields };
  view.items.push(item);
  return item;
}

/** @param {View} view @param {LogEvent} event @param {"info" | "warn" | "error"} level @param {string} text @param {string | null} [detail] */
function note(view, event, level, text, detail) {
  add(view, event, "note", { level, text, detail: detail ?? "" });
}

/** @param {Item} item @param {(item: Item) => void} edit */
function change(item, edit) {
  edit(item);
  item.version += 1;
}

/** @param {View} view @param {LogEvent} event @returns {Item} */
function openReply(view, event) {
  view.reply ??= add(view, event, "reply", { text: "", thinking: "", isOpen: true, truncated: false, blobs: null });
  return view.reply;
}

/** @param {View} view @param {any} decision */
function itemOfApproval(view, decision) {
  const call = view.calls.get(decision.callId ?? "");
  if (call) return call;
  for (let at = view.items.length - 1; at >= 0 && at >= view.items.length - 200; at--) {
    if (view.items[at].approval?.approvalId === decision.approvalId) return view.items[at];
  }
  return null;
}

/** @param {View} view @param {string} name */
function lastCall(view, name) {
  for (let at = view.items.length - 1; at >= 0 && at >= view.items.length - 200; at--) {
    const item = view.items[at];
    if (item.kind === "call" && item.name === name && item.durationMs === null) return item;
  }
  return null;
}

/** @param {any} result */
function stateOf(result) {
  if (result.structuredError?.type === "UNKNOWN_OUTCOME" || result.outcome === "unknown") return "unknown";
  if (result.outcome === "denied") return "denied";
  return result.isError ? "failed" : "done";
}
