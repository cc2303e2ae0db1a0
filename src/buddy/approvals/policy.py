"""Approval policies: `ask`, `all`, `none`, or `until` (all until a moment); written as a word or a duration."""

from msgspec import Struct

from buddy.errors import ProtocolError
from buddy.protocol.codes import Policy
from buddy.protocol.durations import parse_duration


class EffectivePolicy(Struct, frozen=True):
    """A policy, and when it expires (Unix milliseconds)."""

    policy: Policy
    expires_at: int | None = None

    def at(self, now: int) -> Policy:
        """The policy in force now: an `until` that has expired is an `ask`."""
        if self.policy != "until":
            return self.policy
        return "all" if self.expires_at is not None and now < self.expires_at else "ask"

    def text(self) -> str:
        return f"until:{self.expires_at}" if self.policy == "until" else self.policy


def parse_policy(text: str, now: int) -> EffectivePolicy:
    """Read `ask`, `all`, `none`, a duration such as `10m`, or `until:UNIX_MS`."""
    if text in ("ask", "all", "none"):
        return EffectivePolicy(text)
    if text.startswith("until:") and text[6:].isdigit():
        return EffectivePolicy("until", int(text[6:]))
    seconds = parse_duration(text)
    if seconds is None:
        raise ProtocolError(
            "INVALID_REQUEST", f"unknown approval policy {text[:40]!r}. Use ask, all, none or a duration such as 10m"
        )
    return EffectivePolicy("until", now + int(seconds * 1000))
