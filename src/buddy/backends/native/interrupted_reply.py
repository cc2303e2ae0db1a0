"""A reply that is stopped while it streams: what was said so far is kept as a message of the conversation.

Invariants: the message has the streamed text and no calls; it is recorded only in runs whose recording says so, so that
older ones are replayed as they were.
"""

from buddy.backends.contract import Run
from buddy.protocol.events import (
    INTERRUPTED,
    AssistantDone,
    AssistantMessage,
    AssistantRestart,
    AssistantToken,
    EventBody,
    RunComplete,
)

SINCE = 3
"""The first version of a recording with such messages."""


class PartialReply:
    """What has come of a reply that is not complete, as far as this process has seen it come."""

    observed = frozenset({AssistantToken, AssistantMessage, AssistantRestart, RunComplete})

    def __init__(self) -> None:
        self._pieces: list[str] = []

    @property
    def text(self) -> str:
        return "".join(self._pieces)

    def observe(self, body: EventBody) -> None:
        match body:
            case AssistantToken():
                self._pieces.append(body.text)
            case AssistantMessage() | AssistantRestart() | RunComplete():
                self._pieces.clear()
            case _:
                pass


async def keep_interrupted(run: Run, partial: PartialReply) -> None:
    """Whatever cancelled the reply (a person, a time limit, a shutdown), the model will know what it has said."""
    if run.state.recording < SINCE:
        return
    await run.scrub_ahead(_message(run, partial))  # also ends the stream, whose last words may be held back
    await run.commit()
    message = _message(run, partial)
    if message.text.strip():
        await run.scrub_ahead(message)
        run.emit(message)
        run.emit(AssistantDone(message_id=message.message_id))


def _message(run: Run, partial: PartialReply) -> AssistantMessage:
    message_id = f"asst_{run.run_id.removeprefix('run_')}.{run.state.turns}"
    return AssistantMessage(message_id=message_id, text=partial.text, tool_calls=(), finish=INTERRUPTED, truncated=True)
