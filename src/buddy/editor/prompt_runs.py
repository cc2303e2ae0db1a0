"""The prompts of an editor and the runs that answer them.

Invariants: a prompt is answered once, with the end of its own run; after a cancel the answer is that it was cancelled,
however the run ended.
"""

import asyncio
import contextlib
from collections.abc import Coroutine, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from buddy.client.client import Client
from buddy.client.images import ImageFile, upload_images
from buddy.editor.json_rpc import INTERNAL_ERROR, Json, Peer, RpcError
from buddy.errors import ProtocolError
from buddy.protocol.events import RunComplete, UserMessage
from buddy.protocol.ids import Ulids
from buddy.protocol.queue_requests import QueueMessage, QueueMessageReply, UnqueueMessage, UnqueueMessageReply
from buddy.protocol.requests import SendUserMessage
from buddy.protocol.shapes import Attachment

CANCELLED = RunComplete(run_id="", outcome="cancelled", summary="cancelled")


class _Prompt(Struct, eq=False):
    """A prompt that waits for the end of its run."""

    message_id: str
    ended: "asyncio.Future[RunComplete]"
    run_id: str | None = None
    is_queued: bool = False
    is_cancelled: bool = False


class Answer(Struct, frozen=True):
    """The stop reason, and what to say about it."""

    stop_reason: str
    note: str = ""

    def result(self) -> Json:
        return {"stopReason": self.stop_reason}


class PromptRuns:
    def __init__(self, session_id: str, client: Client, peer: Peer) -> None:
        self.client = client
        self.sending: set[asyncio.Task[None]] = set()
        """Messages that the runtime has not accepted yet."""
        self._session_id = session_id
        self._peer = peer
        self._prompts: dict[str, _Prompt] = {}

    async def run(self, text: str, images: Sequence[ImageFile]) -> Answer:
        """Send a message, and wait for the end of its run."""
        prompt = _Prompt(Ulids()("msg"), asyncio.get_running_loop().create_future())
        self._prompts[prompt.message_id] = prompt
        task = asyncio.get_running_loop().create_task(self._submit(prompt, text, list(images)))
        self.sending.add(task)
        task.add_done_callback(self.sending.discard)
        try:
            await asyncio.shield(task)
            if prompt.is_cancelled:
                await self._cancel(prompt)
            complete = await prompt.ended
        except asyncio.CancelledError:
            if not self._peer.is_closed:
                await self._cancel(prompt)
            raise
        finally:
            self._prompts.pop(prompt.message_id, None)
        return _answer(complete, is_cancelled=prompt.is_cancelled)

    def has(self, message_id: str) -> bool:
        return message_id in self._prompts

    @property
    def is_cancelling(self) -> bool:
        return any(prompt.is_cancelled for prompt in self._prompts.values())

    def cancel(self, active: str | None) -> Coroutine[Any, Any, None]:
        """Cancel what the editor has asked for so far; without a prompt of its own, whatever runs.

        From now on the answer to these prompts is that they were cancelled; what it returns makes it so.
        """
        prompts = list(self._prompts.values())
        for prompt in prompts:
            prompt.is_cancelled = True
        return self._cancel_all(prompts, active)

    async def _cancel_all(self, prompts: list[_Prompt], active: str | None) -> None:
        for prompt in prompts:
            await self._cancel(prompt)
        if not prompts and active is not None:
            await self._cancel_run(active)

    def note_message(self, message: UserMessage, run_id: str | None) -> None:
        prompt = self._prompts.get(message.message_id)
        if prompt is not None:
            prompt.run_id = run_id

    def note_end(self, complete: RunComplete) -> None:
        for prompt in self._prompts.values():
            if prompt.run_id == complete.run_id:
                _resolve(prompt, complete)

    def fail(self, error: Exception) -> None:
        """The runtime cannot be reached any more."""
        for prompt in self._prompts.values():
            if not prompt.ended.done():
                prompt.ended.set_exception(error)

    def abandon(self) -> None:
        """The editor closes the session, and does not see the end of its runs."""
        for prompt in self._prompts.values():
            _resolve(prompt, CANCELLED)

    async def _submit(self, prompt: _Prompt, text: str, images: list[ImageFile]) -> None:
        uploaded = await self.client.perform(upload_images(self._session_id, images)) if images else []
        attachments = msgspec.convert(uploaded, tuple[Attachment, ...])
        try:
            message = SendUserMessage(self._session_id, prompt.message_id, text, attachments=attachments)
            prompt.run_id = await self.client.send(message)
        except ProtocolError as error:
            if error.code != "RUN_IN_PROGRESS":
                raise
            prompt.is_queued = True
            queued = QueueMessage(prompt.message_id, text, attachments=attachments)
            await self.client.request(queued, QueueMessageReply, self._session_id)

    async def _cancel(self, prompt: _Prompt) -> None:
        if prompt.run_id is not None:
            await self._cancel_run(prompt.run_id)
        elif prompt.is_queued:
            request = UnqueueMessage(prompt.message_id)
            with contextlib.suppress(ProtocolError):
                await self.client.request(request, UnqueueMessageReply, self._session_id)
                _resolve(prompt, CANCELLED)

    async def _cancel_run(self, run_id: str) -> None:
        with contextlib.suppress(ProtocolError):  # it has ended by itself
            await self.client.cancel(self._session_id, run_id)


def _answer(complete: RunComplete, *, is_cancelled: bool) -> Answer:
    if is_cancelled or complete.outcome == "cancelled":
        return Answer("cancelled")
    if complete.outcome == "success":
        return Answer("end_turn")
    if complete.limit is not None:
        return Answer("max_tokens" if complete.limit == "tokens" else "max_turn_requests", complete.summary)
    if complete.outcome == "denied":
        return Answer("end_turn", complete.summary)
    raise RpcError(INTERNAL_ERROR, complete.summary, {"reason": complete.reason or complete.outcome})


def _resolve(prompt: _Prompt, complete: RunComplete) -> None:
    if not prompt.ended.done():
        prompt.ended.set_result(complete)
