"""Sessions with hooks: scripts in files, as people write them, and what becomes of their answers."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import msgspec

from buddy.protocol.events import ApprovalRequired, HookFinished, RunComplete
from buddy.protocol.requests import SubmitApproval
from tests.harness.models import StepModel, Turn
from tests.harness.runtime import RuntimeClient, RuntimeHost, checked_host
from tests.replay.recordings import assert_same, recorded


def hook(command: str, matcher: str | None = None, **more: object) -> dict[str, Any]:
    """One entry of an event."""
    group: dict[str, Any] = {"hooks": [{"type": "command", "command": command, **more}]}
    return group if matcher is None else {"matcher": matcher, **group}


def write_hooks(path: Path, events: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.encode({"hooks": events}))


def user_hooks(workspace: Path, **events: Sequence[Mapping[str, Any]] | Mapping[str, Any]) -> None:
    """The user's own file of a host that works here."""
    write_hooks(workspace / "config" / "hooks.json", listed(events))


def listed(events: Mapping[str, Any]) -> dict[str, list[Any]]:
    return {event: [entry] if isinstance(entry, dict) else list(entry) for event, entry in events.items()}


def saying(output: object) -> str:
    """A command that prints this as JSON."""
    return f"cat >/dev/null; printf '%s' '{msgspec.json.encode(output).decode()}'"


def deciding(decision: str, reason: str = "because", **more: object) -> str:
    """A PreToolUse script with this decision."""
    specific = {"hookEventName": "PreToolUse", "permissionDecision": decision, "permissionDecisionReason": reason}
    return saying({"hookSpecificOutput": {**specific, **more}})


class HookedSession:
    """A session, its model, and what its hooks left."""

    def __init__(self, host: RuntimeHost, client: RuntimeClient, model: StepModel) -> None:
        self.host = host
        self.client = client
        self.model = model

    async def say(self, text: str = "go") -> RunComplete:
        run_id = await self.client.send(text)
        return await self.client.wait_for(RunComplete, lambda complete: complete.run_id == run_id)

    async def decide(self, decision: Literal["approve", "deny"] = "approve") -> ApprovalRequired:
        """Answer the next question."""
        asked = await self.client.wait_for(ApprovalRequired)
        run_id = self.client.received[-1].run_id or ""
        await self.client.api.approve(SubmitApproval(self.client.session_id, run_id, asked.approval_id, decision))
        return asked

    def finished(self, event: str | None = None) -> list[HookFinished]:
        return [body for body in self.client.bodies(HookFinished) if event in (None, body.event)]

    def verdicts(self, event: str | None = None) -> list[str]:
        return [body.verdict for body in self.finished(event)]

    async def assert_replayed(self) -> None:
        """The recording gives the same events again, without the scripts."""
        session = self.host.runtime.sessions.live(self.client.session_id)
        assert session is not None
        await session.journal.commit()
        for path in ("config/hooks.json", ".claude/settings.json", ".agents/hooks.json"):
            (self.host.workspace / path).unlink(missing_ok=True)
        await assert_same(await recorded(self.host.runtime.log, self.client.session_id))


@asynccontextmanager
async def hooked_session(
    workspace: Path, *turns: Turn, mode: str = "interactive", policy: str = "all", trusted: bool = False
) -> AsyncGenerator[HookedSession]:
    model = StepModel(*turns)
    async with checked_host(workspace, model) as host, host.client() as client:
        if trusted:
            (workspace / "state").mkdir(exist_ok=True)
            host.runtime.trust(str(workspace), trusted=True)
        await client.start(mode, approval_policy=policy)
        yield HookedSession(host, client, model)
