"""The decisions of one session: recorded before they take effect, after waiting for a person if needed.

Invariants: at most one decision per approval is accepted, and none after its deadline, by either clock; a decision is
bound to the digest it was made for; if nobody decides in time, the run ends as denied; without an active run, every
call is denied.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from functools import cached_property
from typing import TYPE_CHECKING

from msgspec.structs import replace

from buddy import faults
from buddy.approvals.deadlines import NEVER, Deadline, Moment
from buddy.approvals.decide import Mode, decide, needs_decision
from buddy.approvals.policy import EffectivePolicy
from buddy.approvals.questions import Opinion, Question, Ruling
from buddy.backends.runstate import OpenCall, RunState
from buddy.errors import ProtocolError, RunDenied
from buddy.log.contract import ApprovalDecision, ApprovalRecord
from buddy.protocol.actors import SESSION_GRANT, RuleActor, RuntimeActor
from buddy.protocol.codes import Scope, Verdict
from buddy.protocol.events import ApprovalExpired, ApprovalReceived, ApprovalRequired
from buddy.protocol.ids import Ids
from buddy.protocol.intents import Intent
from buddy.protocol.requests import SubmitApproval
from buddy.protocol.shapes import ApprovalRequest, SessionOptions
from buddy.sessions.effective_policy import policy_of, session_policy_of
from buddy.sessions.hook_points import HookPoints
from buddy.sessions.journal import Journal, Rows
from buddy.sessions.permission_hooks import AskedHooks, judge
from buddy.sessions.state import SessionFold

if TYPE_CHECKING:
    from buddy.approvals.permissions import Permissions


HEADLESS_SECONDS = 300.0
"""How long a question waits in a headless session, unless configured; in an interactive one it does not expire."""
COMPARE_SECONDS = 1.0
"""So long after the machine wakes from sleep, what expired meanwhile is recorded as expired at the latest."""


class _Waiting:
    """A question that a person was asked, and the event that is set once it is decided."""

    def __init__(self, question: Question) -> None:
        self.question = question
        self.decided = asyncio.Event()


async def _nothing_uncovered(_intent: Intent) -> str:
    return ""


class Approvals:
    def __init__(
        self,
        journal: Journal,
        fold: SessionFold,
        permissions: "Callable[[], Permissions]",
        *,
        now: Callable[[], Moment],
        ids: Ids,
        timeout: float | None,
        expiry_ends_run: bool = True,
        hooks: HookPoints,
        uncovered: Callable[[Intent], Awaitable[str]] = _nothing_uncovered,
    ) -> None:
        """`uncovered` says what a call could change that could not be brought back."""
        self._journal = journal
        self._fold = fold
        self._make_permissions = permissions
        self._now = now
        self._ids = ids
        self._timeout = timeout
        self._expiry_ends_run = expiry_ends_run
        self._hooks = hooks
        self._uncovered = uncovered
        self._waiting: dict[str, _Waiting] = {}
        self._submitting = asyncio.Lock()  # so that a decision that stores a rule stays the first one
        self.window: Deadline | None = None
        """When an `until` policy of the session ends; a restart ends it anyway."""

    @cached_property
    def permissions(self) -> "Permissions":
        return self._make_permissions()

    async def ask(self, question: Question) -> Ruling:
        """Decide, or have decided, whether this call may start."""
        run = self._fold.run
        call = run.open_calls.get(question.call_id) if run else None
        if run is None or call is None:
            return Ruling(approved=False, by=RuntimeActor.POLICY, comment="no run is active")
        opinion = judge(self.permissions, call, question)
        if not needs_decision(question.tier, opinion):
            return Ruling(approved=True, by=RuntimeActor.POLICY, waited=False)
        if call.stage == "approved" and call.digest == question.digest:
            return self._ruling(call)  # decided before, perhaps in an earlier process
        if call.stage == "awaiting" and call.approval and call.digest == question.digest:
            self._waiting[call.approval.approval_id] = _Waiting(question)
            await self._settle(call, question)  # the policy may have changed before this was known
            await self._wait(run, call, call.approval)
        elif call.stage != "denied":
            if call.stage == "awaiting" and call.approval:
                # What would run is no longer what was asked about.
                await self._journal.commit(Rows(decision=self._expire(run, call.approval)), durable=True)
            await self._decide(run, call, question, opinion)
        return self._ruling(call)

    async def submit(self, submission: SubmitApproval, by: str) -> None:
        """A person's decision; the first valid one wins, unless its time is over by either clock."""
        async with self._submitting:
            faults.reached("approval.submit.before")
            call = self._fold.pending.get(submission.approval_id)
            if call is None or self._fold.run is None or self._fold.run.run_id != submission.run_id:
                await self._journal.commit()  # the log may yet refuse a decision that the state has already
                known = await self._journal.approval(submission.approval_id)
                raise _refusal(submission, known, self._fold)
            if call.approval is not None and _deadline(call.approval).is_over(self._now()):
                await self._expire_now(self._fold.run, call.approval)
                raise ProtocolError("APPROVAL_EXPIRED", f"{submission.approval_id} expired before this decision")
            until = _grant_deadline(submission, self._now())
            if submission.decision == "approve" and submission.scope == "always":
                # A long file takes a second to change, in which the run may be cancelled.
                await asyncio.to_thread(self.permissions.remember, call.approval)
                if self._fold.pending.get(submission.approval_id) is not call:
                    raise _refusal(submission, await self._journal.approval(submission.approval_id), self._fold)
            elif submission.decision == "approve" and until is not None:
                self.permissions.grant(call.approval, until)
            elif submission.decision == "approve" and submission.scope == "session":
                self.permissions.grant_session(call.approval)
            self._receive(
                call,
                submission.decision,
                by,
                comment=submission.comment,
                scope=submission.scope,
                expires_at=until and until.unix_ms,
                stop=submission.stop,
            )
            await self._journal.commit(
                Rows(decision=ApprovalDecision(submission.approval_id, submission.decision, by)), durable=True
            )
            faults.reached("approval.submit.after")
            _wake(self._waiting, submission.approval_id)

    async def deny_pending(self, by: str, comment: str | None = None) -> None:
        """Deny everything that is pending: after a cancel or a shutdown."""
        for call in self._fold.pending.values():
            await self._decide_pending(call, "deny", by, comment)

    async def apply_policy(self) -> None:
        """After a policy change, decide what is pending as if it came now; what the policy does not cover stays."""
        for approval_id, call in self._fold.pending.items():
            waiting = self._waiting.get(approval_id)
            if waiting is not None:
                await self._settle(call, waiting.question)
            elif self.policy().at(self._now()) == "none" or self._fold.is_planning:
                # After a restart: it is not known yet what exactly would run.
                await self._decide_pending(call, "deny", RuntimeActor.POLICY, None)

    def expire_overdue(self) -> list[ApprovalDecision]:
        """Record what expired while no process was running; the caller commits the returned decisions.

        Runs before any request is accepted, so that a late decision finds the approval expired.
        """
        run, now = self._fold.run, self._now()
        waiting = [call.approval for call in self._fold.pending.values() if call.approval]
        return [self._expire(run, asked) for asked in waiting if run is not None and _deadline(asked).is_over(now)]

    def policy(self) -> EffectivePolicy:
        """The policy of the active run: its own, else the session's."""
        return policy_of(self._fold, self._now(), self.window)

    def session_policy(self) -> EffectivePolicy:
        return session_policy_of(self._fold, self._now(), self.window)

    def is_lenient(self) -> bool:
        """Whether there is a temporary grant, which would end with this process."""
        return self.session_policy().policy == "until" or bool(self.permissions.grants(self._now()))

    async def _decide(self, run: RunState, call: OpenCall, question: Question, opinion: Opinion) -> None:
        now, mode = self._now(), _mode(self._fold)
        policy, grant = self.policy().at(now), self._grant(question, now)
        decision = decide(question, opinion, policy, grant, mode)
        if decide(question, opinion, policy, grant, replace(mode, attended=True)).verdict == "ask":
            # Also where nobody can be asked: a hook may stand in for a person.
            asked = AskedHooks(self._hooks, run.run_id, mode)
            decision = await asked.decide(call, question, opinion) or decision
        approval_id = self._ids("appr")
        if decision.verdict == "ask" or decision.by is None:
            await self._require(run, call, question, approval_id, decision.why)
        else:
            received = ApprovalReceived(
                approval_id=approval_id,
                decision=decision.verdict,
                by=str(decision.by),
                call_id=question.call_id,
                digest=question.digest,
                comment=decision.why or None,
                stop=decision.by is RuntimeActor.HOOK and call.hook_stops,
            )
            self._journal.record(received, self._fold.run.run_id if self._fold.run else None)

    async def _settle(self, call: OpenCall, question: Question) -> None:
        """Decide a pending call if the policy leaves nothing to a person; somebody was asked, so nobody is missing."""
        now = self._now()
        policy, mode = self.policy().at(now), replace(_mode(self._fold), attended=True)
        if policy not in ("all", "none") and not mode.plan:
            return
        decision = decide(question, judge(self.permissions, call, question), policy, self._grant(question, now), mode)
        if decision.verdict != "ask" and decision.by is not None:
            await self._decide_pending(call, decision.verdict, str(decision.by), decision.why or None)

    async def _decide_pending(self, call: OpenCall, decision: Verdict, by: str, comment: str | None) -> None:
        if call.stage != "awaiting" or call.approval is None:
            return  # decided by somebody else while another one was committed
        if decision == "approve" and _deadline(call.approval).is_over(self._now()):
            return  # it is about to expire: no policy approves it any more
        approval_id = call.approval.approval_id
        self._receive(call, decision, by, comment=comment)
        await self._journal.commit(Rows(decision=ApprovalDecision(approval_id, decision, by)), durable=True)
        _wake(self._waiting, approval_id)

    def _grant(self, question: Question, now: Moment) -> RuleActor | None:
        """An earlier grant that covers this: exactly the same call, or a rule that has not expired."""
        if question.digest in self._fold.granted:
            return SESSION_GRANT
        rule_id = self.permissions.find_grant(question, now)
        return RuleActor(rule_id) if rule_id else None

    async def _require(self, run: RunState, call: OpenCall, question: Question, approval_id: str, why: str) -> None:
        uncovered = await self._uncovered(question.intent)
        more = {"uncovered": uncovered} if uncovered else {}
        deadline = _new_deadline(self._now(), self._timeout, _mode(self._fold))
        delegated = self._fold.started.delegated if self._fold.started else None
        required = ApprovalRequired(
            approval_id=approval_id,
            kind=question.intent.kind,
            title=question.intent.title,
            summary=question.intent.summary,
            details={**_where(run), **question.intent.details, **self.permissions.offer(question), "why": why, **more},
            options=("approve", "deny"),
            expires_at=deadline.unix_ms,
            expires_at_boot=deadline.boot,
            call_id=question.call_id,
            digest=question.digest,
            parent=delegated and delegated.parent,
            agent=delegated and delegated.agent,
        )
        await self._journal.prepare(required)
        faults.reached("approval.required.before")
        self._journal.record(required, run.run_id)
        record = ApprovalRecord(approval_id, run.run_id, question.call_id, question.digest, required.expires_at)
        self._waiting[approval_id] = _Waiting(question)
        await self._journal.commit(Rows(approval=record), durable=True)
        faults.reached("approval.required.after")
        self._hooks.notify(f"Buddy needs your permission to use {question.tool}", "permission_prompt")
        await self._settle(call, question)  # the policy may have changed while the question was prepared
        await self._wait(run, call, required)

    async def _wait(self, run: RunState, call: OpenCall, required: ApprovalRequired) -> None:
        """Wait until it is decided or expires."""
        waiting = self._waiting[required.approval_id]
        try:
            await _wait_until(waiting.decided, _deadline(required), self._now)
            if call.stage == "awaiting":
                await self._expire_now(run, required)
        finally:
            self._waiting.pop(required.approval_id, None)

    async def _expire_now(self, run: RunState, required: ApprovalRequired) -> None:
        await self._journal.commit(Rows(decision=self._expire(run, required)), durable=True)
        _wake(self._waiting, required.approval_id)

    def _expire(self, run: RunState, required: ApprovalRequired) -> ApprovalDecision:
        self._journal.record(ApprovalExpired(approval_id=required.approval_id), run.run_id)
        return ApprovalDecision(required.approval_id, "expired", "timeout")

    def _ruling(self, call: OpenCall) -> Ruling:
        is_approved, waited = call.stage == "approved", call.approval is not None
        ruling = Ruling(approved=is_approved, by=call.by, comment=call.comment, waited=waited)
        if not is_approved and call.by == RuntimeActor.TIMEOUT and self._expiry_ends_run:
            raise RunDenied(f"nobody decided in time whether {call.item.name} may run")
        # With `auto`, a run without a person can do without what was denied.
        by_policy = _mode(self._fold).headless and call.by == RuntimeActor.POLICY
        ends_run = call.stop or (by_policy and self.policy().at(self._now()) != "auto")
        if not ruling.approved and ends_run:
            raise RunDenied(f"{call.item.name} was denied by {call.by}")
        return ruling

    def _receive(
        self,
        call: OpenCall,
        decision: Verdict,
        by: str,
        *,
        comment: str | None = None,
        scope: Scope | None = None,
        expires_at: int | None = None,
        stop: bool = False,
    ) -> None:
        if call.approval is None or self._fold.run is None:
            return
        received = ApprovalReceived(
            approval_id=call.approval.approval_id,
            decision=decision,
            by=by,
            call_id=call.item.call_id,
            digest=call.digest,
            comment=comment,
            scope=None if scope == "once" else scope,
            expires_at=expires_at,
            stop=stop,
        )
        self._journal.record(received, self._fold.run.run_id)


def _wake(waiting: dict[str, _Waiting], approval_id: str) -> None:
    if approval_id in waiting:
        waiting[approval_id].decided.set()


async def _wait_until(decided: asyncio.Event, deadline: Deadline, now: Callable[[], Moment]) -> None:
    """The timer stands still while the machine sleeps, so the clocks are compared in between."""
    if deadline == NEVER:
        await decided.wait()
        return
    loop = asyncio.get_running_loop()
    end = loop.time() + max(0.0, deadline.seconds_left(now()))
    while not decided.is_set() and loop.time() < end:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(min(COMPARE_SECONDS, end - loop.time())):
                await decided.wait()
        if deadline.is_over(now()):
            return


def _mode(fold: SessionFold) -> Mode:
    started = fold.started
    if started is None:
        return Mode()
    headless, options = started.mode == "headless", started.options or SessionOptions()
    return Mode(fold.is_planning, headless, options.attended)


def _where(run: RunState) -> dict[str, object]:
    """The run's target and sandbox: every question shows them, even if its intent does not."""
    named = {"target": run.options.target, "sandbox": run.options.sandbox}
    return {name: value for name, value in named.items() if value}


def _new_deadline(now: Moment, configured: float | None, mode: Mode) -> Deadline:
    if configured is not None:
        return now.after(configured)
    return now.after(HEADLESS_SECONDS) if mode.headless else NEVER


def _deadline(asked: ApprovalRequest) -> Deadline:
    return Deadline(asked.expires_at, asked.expires_at_boot)


def _grant_deadline(submission: SubmitApproval, now: Moment) -> Deadline | None:
    if (submission.scope == "until") != (submission.duration_seconds is not None):
        raise ProtocolError(
            "INVALID_REQUEST", "durationSeconds is required with scope 'until' and not allowed otherwise"
        )
    seconds = submission.duration_seconds
    return None if seconds is None else now.after(seconds)


def _refusal(submission: SubmitApproval, known: ApprovalRecord | None, fold: SessionFold) -> ProtocolError:
    """Why a decision is too late, or refers to nothing."""
    is_mine = submission.run_id in fold.runs.values()
    if known is None or known.run_id != submission.run_id or not is_mine:
        return ProtocolError("APPROVAL_NOT_FOUND", f"no approval {submission.approval_id[:80]} is pending in this run")
    reason = "expired with its call" if known.state == "pending" else f"was already decided ({known.state})"
    return ProtocolError("APPROVAL_EXPIRED", f"{submission.approval_id} {reason}")
