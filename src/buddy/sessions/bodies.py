"""Turns the body of an event into what is stored: scrubbed, encoded, its long parts as blobs.

Invariants: what a provider wants back unmodified is stored byte for byte, or not at all if it contains a registered
secret; encoding a body that was prepared takes no time, because that was done in steps before.
"""

from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from buddy import long_json
from buddy.protocol.events import AssistantMessage, EventBody, Progress, RunComplete, UserMessage
from buddy.scrub import Scrubber
from buddy.scrub.slices import long_texts, scrub_in_slices, scrub_registered_in_slices
from buddy.sessions.spill import SPILL_ABOVE, encode_long
from buddy.steps import at_once, take_turns

_NO_BLOBS: dict[str, bytes] = {}
_encode = msgspec.json.Encoder().encode


class BodyEncoder:
    def __init__(self, scrubber: Scrubber) -> None:
        self._scrubber = scrubber
        self._prepared: dict[int, _Prepared] = {}

    async def prepare(self, body: EventBody) -> None:
        """Scrub and encode a long body that is recorded next."""
        texts = list(long_texts(msgspec.to_builtins(body)))
        if not texts:
            return
        for text in texts:
            await scrub_in_slices(self._scrubber, text)
        version = self._scrubber.version
        opaque = await self._clean_opaque(body) if isinstance(body, AssistantMessage) else {}
        scrubbed = self._scrub(body, opaque)
        payload, blobs = await take_turns(encode_long(scrubbed))
        self._prepared[id(body)] = _Prepared(body, scrubbed, payload, blobs, version)

    def encode(self, body: EventBody) -> tuple[EventBody, bytes, dict[str, bytes]]:
        """The scrubbed body, its payload, and the blobs that the payload names."""
        if self._prepared:
            prepared = self._prepared.pop(id(body), None)
            if isinstance(body, RunComplete):
                self._prepared.clear()  # of a run that was cancelled
            if prepared is not None and prepared.version == self._scrubber.version:
                return prepared.scrubbed, prepared.payload, prepared.blobs
        body = self._scrub(body)
        payload = _encode(body)
        return (body, payload, _NO_BLOBS) if len(payload) <= SPILL_ABOVE else (body, *at_once(encode_long(body)))

    def _scrub(self, body: EventBody, opaque: dict[str, Any] | None = None) -> EventBody:
        """The body without secrets; `opaque` is what may be stored of what a provider wants back, if that is known."""
        if isinstance(body, UserMessage) and body.as_is:
            known = None if body.expanded is None else self._scrubber.registered(body.expanded)
            return replace(body, text=self._scrubber.registered(body.text), expanded=known)
        if not (isinstance(body, AssistantMessage) and body.opaque) and self._scrubber.is_clean(body):
            return body
        tree: dict[str, Any] = msgspec.to_builtins(body)
        given: dict[str, object] = (tree.pop("opaque", None) or {}) if isinstance(body, AssistantMessage) else {}
        if opaque is None:
            opaque = {name: item for name, item in given.items() if not _holds_secret(self._scrubber, name, item)}
        # Tiers by the names of tools: one that is called `get_token` would look like a name with its secret.
        apart: dict[str, object] = {"tiers": tree.pop("tiers")} if isinstance(body, Progress) and body.tiers else {}
        scrubbed = self._scrubber.tree(tree)
        if scrubbed is tree and len(opaque) == len(given):
            return body
        return msgspec.convert({**scrubbed, **apart, **({"opaque": opaque} if opaque else {})}, type(body))

    async def _clean_opaque(self, message: AssistantMessage) -> dict[str, Any]:
        """What may be stored of what a provider wants back."""
        clean: dict[str, Any] = {}
        for name, item in (message.opaque or {}).items():
            text = (await take_turns(long_json.encode({name: item}))).decode()
            if await scrub_registered_in_slices(self._scrubber, text) == text:
                clean[name] = item
        return clean


class _Prepared(Struct, frozen=True):
    """A body that is recorded next, in the form in which it is stored; valid until a secret is registered."""

    body: EventBody
    scrubbed: EventBody
    payload: bytes
    blobs: dict[str, bytes]
    version: int


def _holds_secret(scrubber: Scrubber, name: str, item: object) -> bool:
    text = msgspec.json.encode({name: item}).decode()
    return scrubber.registered(text) != text
