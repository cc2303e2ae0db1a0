"""The actors behind `by`: a client, a rule, or the runtime itself.

On the wire an actor is a string: the client's registered name, `rule:<id>`, or one of the runtime's own words.
Invariant: no client is registered under a name that reads as a rule or as the runtime.
"""

import re
from enum import StrEnum

from msgspec import Struct

_RULE = "rule:"
_NAME_LENGTH = 40
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._ -]")


class RuntimeActor(StrEnum):
    """The runtime's own actors. Each can be written to `by` as it is."""

    POLICY = "policy"
    TIMEOUT = "timeout"
    ACCEPTANCE = "acceptance"
    RESTART = "restart"
    AUTO_COMPACTION = "auto"
    DAEMON = "daemon"
    IMPORT = "import"
    HOOK = "hook"
    PARENT = "parent"


class RuleActor(Struct, frozen=True):
    """A permission rule, a limit or a grant, by its id."""

    id: str

    def __str__(self) -> str:
        return f"{_RULE}{self.id}"


class ClientActor(Struct, frozen=True):
    """A client, by the name it is registered under."""

    name: str

    def __str__(self) -> str:
        return self.name


SESSION_GRANT = RuleActor("session")
"""What a person approved for the rest of the session."""

Actor = ClientActor | RuleActor | RuntimeActor

_RUNTIME = {actor.value: actor for actor in RuntimeActor}
_OUTSIDE = (RuntimeActor.DAEMON, RuntimeActor.IMPORT, RuntimeActor.PARENT)


def register_client(name: str) -> ClientActor:
    """The client that introduces itself by this name: cleaned, and never an actor of another kind."""
    name = _NOT_IN_NAMES.sub("", name)[:_NAME_LENGTH].strip() or "client"
    return ClientActor(name) if isinstance(parse_actor(name.lower()), ClientActor) else ClientActor(f"{name}-client")


def parse_actor(by: str) -> Actor:
    """The actor that an event's `by` names."""
    if by in _RUNTIME:
        return _RUNTIME[by]
    return RuleActor(by.removeprefix(_RULE)) if by.startswith(_RULE) else ClientActor(by)


def acts_on_session(by: str) -> bool:
    """Whether this came to the session from outside, and not from its own rules, policy or run."""
    actor = parse_actor(by)
    return isinstance(actor, ClientActor) or actor in _OUTSIDE
