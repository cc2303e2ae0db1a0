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
from buddy.sessions.spill import SPILL_ABOVE, encode_long
from buddy.steps import Steps, at_once, take_turns

_NO_BLOBS: dict[str, bytes] = {}
_encode = msgspec.json.Encoder().encode


class BodyEncoder:
    def __init__(self, scrubber: Scrubber) -> None:
        self._scrubber = scrubber
        self._prepared: dict[int, _Prepared] = {}

    async def prepare(self, body: EventBody) -> None:
        """Scrub and encode a long body that is encoded next, in steps."""
        version = self._scrubber.version
        scrubbed = await take_turns(self._scrub_steps(body))
        payload, blobs = await take_turns(encode_long(scrubbed))
        self._prepared[id(body)] = _Prepared(body, scrubbed, payload, blobs, version)

    def encode(self, body: EventBody, *, is_scrubbed: bool = False) -> tuple[EventBody, bytes, dict[str, bytes]]:
        """The scrubbed body, its payload, and the blobs that the payload names."""
        if self._prepared:
            prepared = self._prepared.pop(id(body), None)
            if isinstance(body, RunComplete):
                self._prepared.clear()  # of a run that was cancelled
            if prepared is not None and prepared.version == self._scrubber.version:
                return prepared.scrubbed, prepared.payload, prepared.blobs
        body = body if is_scrubbed else self._scrub(body)
        payload = _encode(body)
        return (body, payload, _NO_BLOBS) if len(payload) <= SPILL_ABOVE else (body, *at_once(encode_long(body)))

    def _scrub(self, body: EventBody) -> EventBody:
        is_kept_exactly = type(body) is AssistantMessage and body.opaque
        if not is_kept_exactly and not _is_as_is(body) and self._scrubber.is_clean(body):
            return body
        return at_once(self._scrub_steps(body))

    def _scrub_steps(self, body: EventBody) -> Steps[EventBody]:
        if isinstance(body, UserMessage) and body.as_is:
            text = yield from self._scrubber.registered_steps(body.text)
            expanded = (yield from self._scrubber.registered_steps(body.expanded)) if body.expanded else body.expanded
            return replace(body, text=text, expanded=expanded)
        tree: dict[str, Any] = msgspec.to_builtins(body)
        opaque: dict[str, object] = (tree.pop("opaque", None) or {}) if isinstance(body, AssistantMessage) else {}
        kept: dict[str, object] = {}
        for name, item in opaque.items():
            holds_secret = yield from self._holds_secret(name, item)
            kept |= {} if holds_secret else {name: item}
        # Tiers by the names of tools: one that is called `get_token` would look like a name with its secret.
        apart: dict[str, object] = {"tiers": tree.pop("tiers")} if isinstance(body, Progress) and body.tiers else {}
        scrubbed = yield from self._scrubber.tree_steps(tree)
        if scrubbed is tree and len(kept) == len(opaque):
            return body
        return msgspec.convert({**scrubbed, **apart, **({"opaque": kept} if kept else {})}, type(body))

    def _holds_secret(self, name: str, item: object) -> Steps[bool]:
        text = (yield from long_json.encode({name: item})).decode()
        return (yield from self._scrubber.registered_steps(text)) != text


def _is_as_is(body: EventBody) -> bool:
    return type(body) is UserMessage and body.as_is


class _Prepared(Struct, frozen=True):
    """A body that is recorded next, in the form in which it is stored; valid until a secret is registered."""

    body: EventBody
    scrubbed: EventBody
    payload: bytes
    blobs: dict[str, bytes]
    version: int
