"""The start of a sub-agent's session, derived from its parent's.

Invariants: target, sandbox, approval policy and plan mode are the parent's; tools and budget are at most the parent's;
the same call always gives the same id, so that an interrupted one finds its sub-agent again.
"""

import hashlib
from collections.abc import Collection, Sequence
from typing import TypeVar

from msgspec.structs import replace

from buddy.approvals.policy import EffectivePolicy
from buddy.backends.budget import Budget
from buddy.backends.runstate import RunState
from buddy.errors import ToolError
from buddy.protocol.events import SessionStarted
from buddy.protocol.ids import encode_ulid
from buddy.protocol.shapes import BudgetLimits, Delegated, SessionOptions
from buddy.sessions.session import Session
from buddy.tools.delegate import NATIVE, ChildTask

Number = TypeVar("Number", int, float)
REPORT = (
    "You are a sub-agent: another agent gave you this task and gets only your last message. Work without asking back, "
    "and report in that message everything that was asked for."
)
UNLIMITED = BudgetLimits()


def child_id_of(session_id: str, run: RunState, call_id: str) -> str:
    """The id of the session that a call starts; it sorts by the time of its run, as other ids do."""
    digest = hashlib.sha256(f"{session_id}\0{run.run_id}\0{call_id}".encode()).digest()
    return f"sess_{encode_ulid(max(0, run.started_ts) << 80 | int.from_bytes(digest[:10], 'big'))}"


def message_id_of(child_id: str) -> str:
    """The id of the task as a message: sent twice, it is one run."""
    return f"msg_{child_id.removeprefix('sess_')}"


def child_start(
    parent: Session, run: RunState, call_id: str, task: ChildTask, profiles: Collection[str]
) -> SessionStarted:
    """The first event of the sub-agent's session; ToolError if the parent cannot hand that over."""
    started = parent.fold.started
    if started is None:
        raise ToolError("this session has no recorded start, so it cannot have sub-agents")
    options = started.options or SessionOptions()
    runtime = task.agent.agent_runtime or NATIVE
    tools = _tools(parent, options.tools, task, runtime)
    profile, model = _model(parent, options, task.agent.model, profiles)
    is_native = runtime == NATIVE
    return replace(
        started,
        session_id=child_id_of(parent.session_id, run, call_id),
        user=parent.user,  # in the recorded start, it may be scrubbed
        node=parent.services.node,
        state="idle",
        watch=None,
        metadata=None,
        options=replace(
            options,
            agent_runtime=runtime,
            profile=profile if is_native else None,
            model=model if is_native else task.agent.model or None,
            tmux=None,
            plan=parent.fold.is_planning,
            approval_policy=_policy(parent.approvals.policy()),
            budget=_budget(parent, run, task.limits),
            system_prompt="\n\n".join(filter(None, (task.agent.prompt, REPORT))),
            tools=tools,
        ),
        delegated=Delegated(
            parent=parent.session_id,
            run_id=run.run_id,
            call_id=call_id,
            agent=task.agent.name,
            depth=depth_of(parent) + 1,
        ),
    )


def depth_of(session: Session) -> int:
    """How many delegations led to a session."""
    started = session.fold.started
    return started.delegated.depth if started and started.delegated else 0


def _tools(parent: Session, of_parent: Sequence[str] | None, task: ChildTask, runtime: str) -> tuple[str, ...] | None:
    if runtime != NATIVE:
        if of_parent is not None or task.tools is not None or task.agent.without:
            raise ToolError(f"{runtime} cannot be limited to some tools; use an agent without a list of tools")
        return None
    if task.tools is None and not task.agent.without:
        return None if of_parent is None else tuple(of_parent)
    available = tool_names(parent)
    wanted = available if task.tools is None else task.tools
    found = tuple(name for name in wanted if name in available and name not in task.agent.without)
    if not found:
        raise ToolError(f"none of its tools is available: {', '.join(wanted)}. Available: {', '.join(available)}")
    return found


def tool_names(parent: Session) -> tuple[str, ...]:
    """The tools that a session has in its current turn."""
    names: tuple[str, ...] = getattr(parent.backend, "tool_names", ())
    return names


def _model(
    parent: Session, options: SessionOptions, wanted: str, profiles: Collection[str]
) -> tuple[str | None, str | None]:
    """The profile and the model by name: those of the definition, or those that the parent uses."""
    fold = parent.fold
    profile, model = fold.profile or options.profile, fold.model or options.model
    if not wanted:
        return profile, model
    named, _, rest = wanted.partition("/")
    if named in profiles:
        return named, rest or None
    return profile, wanted


def _policy(policy: EffectivePolicy) -> str:
    """As it is recorded; what is in force after a window must not be wider than in the parent."""
    return policy.before if policy.policy == "until" and policy.before == "none" else policy.text()


def _budget(parent: Session, run: RunState, wanted: BudgetLimits) -> BudgetLimits:
    """What it asks for, inside its share of what is left: each open call and the parent itself have one."""
    waiting = [call for call in run.open_calls.values() if call.item.name == "delegate"]
    shares = sum(call.item.call_id not in run.children for call in waiting) + 1
    seconds = max(0.0, (parent.services.clock() - run.started_ts) / 1000)
    share = Budget(run, lambda: seconds).share(shares)
    if share is None:
        raise ToolError("too little is left of the budget for a sub-agent; do the work yourself, or finish")
    return BudgetLimits(
        max_turns=_least(wanted.max_turns, share.max_turns),
        max_cost_usd=_least(wanted.max_cost_usd, share.max_cost_usd),
        max_tokens=_least(wanted.max_tokens, share.max_tokens),
        max_seconds=_least(wanted.max_seconds, share.max_seconds),
        max_tool_calls=_least(wanted.max_tool_calls, share.max_tool_calls),
    )


def _least(one: Number | None, other: Number | None) -> Number | None:
    given = [limit for limit in (one, other) if limit is not None]
    return min(given, default=None)
