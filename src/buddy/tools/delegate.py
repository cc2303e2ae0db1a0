"""Starts a sub-agent, waits for it, and returns its final message.

Invariants: the approval shows which tools, model and agent it hands the task to; a sub-agent has at most the tools of
its parent; a call that was interrupted finds its sub-agent again, and never starts a second one.
"""

from collections.abc import Callable
from typing import Annotated, Protocol

from msgspec import Meta, Struct

from buddy.errors import OutcomeUnknown, ToolError
from buddy.protocol.codes import Outcome, Source, Tier
from buddy.protocol.intents import SANDBOXES, Other
from buddy.protocol.shapes import BudgetLimits
from buddy.tools.agent_files import NO_AGENTS, AgentDefinition, FoundAgents
from buddy.tools.contract import Call, Output, Place
from buddy.tools.other_names import our_names
from buddy.tools.texts import text_of

NATIVE = "native"
GENERAL = "general"
"""The agent without a definition."""
SHOWN_TASK = 80


class DelegateBudget(Struct, frozen=True, forbid_unknown_fields=True):
    max_turns: Annotated[int, Meta(ge=1)] | None = None
    max_tokens: Annotated[int, Meta(ge=1)] | None = None
    max_cost_usd: Annotated[float, Meta(gt=0)] | None = None
    max_seconds: Annotated[float, Meta(gt=0)] | None = None
    max_tool_calls: Annotated[int, Meta(ge=1)] | None = None


class DelegateArgs(Struct, frozen=True, forbid_unknown_fields=True):
    task: Annotated[
        str, Meta(description="What to do and what to report, complete in itself.", min_length=1, max_length=65536)
    ]
    agent: Annotated[
        str | None, Meta(description="Name of the agent to use; omit it for a general one with your own tools.")
    ] = None
    tools: Annotated[
        tuple[str, ...] | None, Meta(description="Names of the only tools it may use; omit it for all it can have.")
    ] = None
    budget: Annotated[
        DelegateBudget | None, Meta(description="Limits for it, inside what is left of your own budget.")
    ] = None


class ChildTask(Struct, frozen=True):
    """What a sub-agent is started for. `tools` is None for all that its parent has."""

    agent: AgentDefinition
    text: str
    tools: tuple[str, ...] | None = None
    limits: BudgetLimits = BudgetLimits()


class ChildResult(Struct, frozen=True):
    """How a sub-agent ended, and its last message."""

    session_id: str
    outcome: Outcome
    text: str
    summary: str


class Children(Protocol):
    """Starts the sub-agents of all sessions."""

    async def delegate(self, session_id: str, call_id: str, task: ChildTask) -> ChildResult:
        """Start a sub-agent, or find the one that this call started, and wait for it; ToolError if it is refused."""
        ...

    async def is_known(self, session_id: str, call_id: str) -> bool:
        """Whether it is certain what became of a call that was interrupted, so that it can continue."""
        ...


FindAgents = Callable[[Place], FoundAgents]


class Delegate:
    name: str = "delegate"
    tier: Tier = "side-effecting"
    source: Source = "unknown"
    args: type[Struct] = DelegateArgs
    timeout: float | None = None
    concurrent: bool = True

    def __init__(self, children: Children | None, find: FindAgents | None) -> None:
        self.description: str = text_of("delegate")
        self._children = children
        self._find = find or _find_none

    async def intent(self, args: DelegateArgs, place: Place) -> Other:
        task = self._task(args, place)
        agent, runtime = task.agent, task.agent.agent_runtime or NATIVE
        shown = {
            "agent": agent.name,
            "definition": agent.path or None,
            "task": args.task,
            "tools": "all of its parent" if task.tools is None else list(task.tools),
            "without": list(agent.without) or None,
            "model": agent.model or None,
            "agentRuntime": runtime,
            "prompt": agent.prompt or None,
        }
        title = f"start the sub-agent {agent.name}" + ("" if runtime == NATIVE else f" ({runtime})")
        return Other(
            title=title,
            summary=" ".join(args.task.split())[:SHOWN_TASK],
            shown={name: value for name, value in shown.items() if value is not None},
            target=place.target.name,
            sandbox=place.sandbox,
            # What it does is asked about call by call; another agent itself runs outside the sandbox.
            is_contained=runtime == NATIVE and place.sandbox in SANDBOXES,
            follows_plan=runtime == NATIVE,
        )

    async def run(self, args: DelegateArgs, call: Call) -> Output:
        if self._children is None:
            raise ToolError("sub-agents are not available here")
        result = await self._children.delegate(call.session_id, call.call_id, self._task(args, call.place))
        if result.outcome == "success":
            return Output(result.text or "The sub-agent finished without a message.")
        said = f"\n\nIts last message:\n{result.text}" if result.text else ""
        text = f"The sub-agent did not succeed ({result.outcome}): {result.summary}{said}"
        return Output(text, is_error=True)

    async def is_resumable(self, call: Call) -> bool:
        """Whether an interrupted call can go on: `run` finds its sub-agent again."""
        return self._children is not None and await self._children.is_known(call.session_id, call.call_id)

    def _task(self, args: DelegateArgs, place: Place) -> ChildTask:
        agent = self._agent(args.agent, place)
        tools = agent.tools
        if args.tools is not None:
            wanted = tuple(dict.fromkeys(name for word in args.tools for name in our_names(word)))
            tools = wanted if tools is None else tuple(name for name in tools if name in wanted)
        given = args.budget or DelegateBudget()
        limits = BudgetLimits(
            max_turns=min(filter(None, (given.max_turns, agent.max_turns)), default=None),
            max_cost_usd=given.max_cost_usd,
            max_tokens=given.max_tokens,
            max_seconds=given.max_seconds,
            max_tool_calls=given.max_tool_calls,
        )
        return ChildTask(agent, args.task, tools, limits)

    def _agent(self, name: str | None, place: Place) -> AgentDefinition:
        found = self._find(place)
        if name is None or (name == GENERAL and found.get(GENERAL) is None):
            return found.get(GENERAL) or AgentDefinition(GENERAL)
        agent = found.get(name)
        if agent is None:
            names = ", ".join(sorted({GENERAL, *(agent.name for agent in found.agents)}))
            raise ToolError(f"unknown agent {name[:80]!r}. Available: {names}")
        return agent


def outcome_unknown(session_id: str) -> OutcomeUnknown:
    return OutcomeUnknown(f"the session of the sub-agent ({session_id}) was deleted")


def _find_none(_place: Place) -> FoundAgents:
    return NO_AGENTS
