"""The digest that binds a decision to exactly what runs."""

import hashlib
from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, cast

from buddy.protocol.intents import Intent
from buddy.steps import PART, Steps, parts
from buddy.tools.contract import Place

if TYPE_CHECKING:
    import json

_PIECE = 64  # what a piece of one character takes, in characters of a long one


def digest_of(tool: str, arguments: str, intent: Intent, place: Place) -> Steps[str]:
    """SHA-256 over tool, arguments, everything the approval shows, and the place."""
    where = {"target": place.target.name, "sandbox": place.sandbox}
    # The question shows the place among the details, so asked and prepared calls have the same digest.
    details = {**where, **intent.details}
    shown = {"tool": tool, "arguments": arguments, "details": details, "root": place.root, **where}
    if len(arguments) <= PART:
        return hashlib.sha256(_canonical().encode(shown).encode()).hexdigest()
    found, size = hashlib.sha256(), 0
    for piece in _pieces(shown):
        found.update(piece.encode())
        size += len(piece) + _PIECE
        if size > PART:
            size = 0
            yield
    return found.hexdigest()


def _pieces(value: object) -> Iterator[str]:
    """The canonical JSON of a value with long texts, in pieces."""
    match value:
        case str():
            yield '"'
            for part in parts(value):
                yield _canonical().encode(part)[1:-1]
            yield '"'
        case dict():
            entries = cast("dict[str, object]", value)
            for number, name in enumerate(sorted(entries)):
                yield ("," if number else "{") + _canonical().encode(name) + ":"
                yield from _pieces(entries[name])
            yield "}" if entries else "{}"
        case list() | tuple():
            for number, entry in enumerate(cast("Sequence[object]", value)):
                yield "," if number else "["
                yield from _pieces(entry)
            yield "]" if value else "[]"
        case _:
            yield _canonical().encode(value)


def nonce_of(session_id: str, call_id: str) -> str:
    """The mark that every process of this call carries, by which it is found after a crash."""
    return hashlib.sha256(f"{session_id}\0{call_id}".encode()).hexdigest()[:32]


@cache
def _canonical() -> "json.JSONEncoder":
    import json

    return json.JSONEncoder(sort_keys=True, separators=(",", ":"), default=str)
