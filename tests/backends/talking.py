"""Talk to an executor as the backend does: send a message, answer its permission requests, collect the events."""

from collections.abc import Callable

from buddy.backends.external.contract import AgentEvent, Completion, Executor, Permission, PermissionAnswer

Decide = Callable[[Permission], PermissionAnswer]


def yes(_: Permission) -> PermissionAnswer:
    return PermissionAnswer(approved=True)


def no(_: Permission) -> PermissionAnswer:
    return PermissionAnswer(approved=False, comment="not that")


async def send(executor: Executor, text: str, decide: Decide = yes) -> list[AgentEvent]:
    """Send a message and collect the events up to its completion."""
    await executor.send_message(text)
    return await listen(executor, decide)


async def listen(executor: Executor, decide: Decide = yes) -> list[AgentEvent]:
    """All events up to the next completion, or to the end."""
    events: list[AgentEvent] = []
    async for event in executor.events():
        events.append(event)
        if isinstance(event, Permission):
            await event.reply(decide(event))
        if isinstance(event, Completion):
            break
    return events


async def until(executor: Executor, kind: type[AgentEvent]) -> AgentEvent:
    async for event in executor.events():
        if isinstance(event, kind):
            return event
    raise AssertionError(f"the events ended before a {kind.__name__}")
