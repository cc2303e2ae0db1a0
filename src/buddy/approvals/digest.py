"""The digest that binds a decision to exactly what runs."""

import hashlib
from functools import cache
from typing import TYPE_CHECKING

from buddy.protocol.intents import Intent
from buddy.tools.contract import Place

if TYPE_CHECKING:
    import json


def digest_of(tool: str, arguments: str, intent: Intent, place: Place) -> str:
    """SHA-256 over tool, arguments, everything the approval shows, and the place."""
    where = {"target": place.target.name, "sandbox": place.sandbox}
    # The question shows the place among the details, so asked and prepared calls have the same digest.
    details = {**where, **intent.details}
    shown = {"tool": tool, "arguments": arguments, "details": details, "root": place.root, **where}
    return hashlib.sha256(_canonical().encode(shown).encode()).hexdigest()


def nonce_of(session_id: str, call_id: str) -> str:
    """The mark that every process of this call carries, by which it is found after a crash."""
    return hashlib.sha256(f"{session_id}\0{call_id}".encode()).hexdigest()[:32]


@cache
def _canonical() -> "json.JSONEncoder":
    import json

    return json.JSONEncoder(sort_keys=True, separators=(",", ":"), default=str)
