"""Hooks that answer what they answered; nothing is run.

Invariants: an answer comes at its recorded place; where a hook was running when the run was cancelled, ran out of time
or its process died, nothing comes.
"""

from buddy.backends.hooks import HookCall
from buddy.protocol.events import (
    EventBody,
    HookFinished,
    RunCancelling,
    RunComplete,
    UserMessage,
    WarningRaised,
)
from buddy.protocol.hook_events import HookEvent
from buddy.replay.recording import CallStep, ReplayCursor, wait_for_ever


class RecordedHooks:
    """Satisfies `Hooks`; those outside of a run are recorded again like requests of clients."""

    def __init__(self, cursor: ReplayCursor) -> None:
        self._cursor = cursor

    def watches(self, event: HookEvent) -> bool:
        return event not in ("SessionStart", "SessionEnd", "Notification")

    async def wait_ready(self) -> None:
        """Until what was recorded of the session's start, before its run went on, has happened."""
        last = 0
        for event, body in self._cursor.after(self._cursor.reached):
            if event.run_id is not None:
                break
            last = event.seq if isinstance(body, HookFinished) and body.event == "SessionStart" else last
        if last:
            await self._cursor.wait_before(last + 1)

    async def close(self) -> None:
        return

    async def run(self, call: HookCall) -> tuple[HookFinished, ...]:
        if call.matched == "manual":
            return ()  # a client's compaction, which is outside of a run
        for event, body in self._cursor.rest_of_run():
            if event.run_id is None:
                continue
            if _answers(body, call):
                await self._cursor.wait_before(event.seq)
                return self._answers_from(event.seq, call)
            if _is_stopped(body):
                break
            if _is_past(body, call):
                return ()
        # Whatever was going on here did not get further.
        return await wait_for_ever()

    def _answers_from(self, seq: int, call: HookCall) -> tuple[HookFinished, ...]:
        """All that answered together are recorded together."""
        found: list[HookFinished] = []
        for _, body in self._cursor.after(seq - 1):
            if not isinstance(body, HookFinished) or not _answers(body, call):
                break
            found.append(body)
        return tuple(found)


def _answers(body: EventBody, call: HookCall) -> bool:
    if not isinstance(body, HookFinished) or body.event != call.event or body.call_id != call.call_id:
        return False
    if body.again != call.again:
        return False
    return call.message_id is None or body.message_id == call.message_id


def _is_stopped(body: EventBody) -> bool:
    """Whether the run ended from outside, wherever it was."""
    return isinstance(body, RunCancelling) or (isinstance(body, RunComplete) and body.limit == "seconds")


def _is_past(body: EventBody, call: HookCall) -> bool:
    """Whether this was recorded after the hooks for the call, if there were any.

    Calls that only read are made together, so that what is recorded of others says nothing about this one.
    """
    if call.event in ("PreToolUse", "PermissionRequest"):
        return isinstance(body, RunComplete) or (isinstance(body, CallStep) and body.call_id == call.call_id)
    return not isinstance(body, UserMessage | WarningRaised | HookFinished)
