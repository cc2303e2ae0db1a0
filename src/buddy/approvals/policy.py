"""Approval policies: `ask`, `all`, `none`, or all `until` a moment; written by people as a word or a duration."""

import re

from msgspec import Struct

from buddy.errors import ProtocolError
from buddy.protocol.basics import MAX_SECONDS
from buddy.protocol.codes import Policy

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


class Effective(Struct, frozen=True):
    policy: Policy
    expires_at: int | None = None

    def at(self, now: int) -> Policy:
        """What holds now: an `until` whose time is over has become `ask`."""
        if self.policy != "until":
            return self.policy
        return "all" if self.expires_at is not None and now < self.expires_at else "ask"

    def text(self) -> str:
        return f"until:{self.expires_at}" if self.policy == "until" else self.policy


def parse_policy(text: str, now: int) -> Effective:
    """Read `ask`, `all`, `none`, a duration such as `10m`, or `until:UNIX_MS`."""
    if text in ("ask", "all", "none"):
        return Effective(text)
    if text.startswith("until:") and text[6:].isdigit():
        return Effective("until", int(text[6:]))
    seconds = parse_duration(text)
    if seconds is None:
        raise ProtocolError(
            "INVALID_REQUEST", f"no approval policy {text[:40]!r}; use ask, all, none or a duration like 10m"
        )
    return Effective("until", now + int(seconds * 1000))


def parse_duration(text: str) -> float | None:
    """Seconds of `500ms`, `30s`, `10m`, `1h`, `2d` or a bare number of seconds; None for anything else."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)?", text.strip())
    seconds = float(found[1]) * _UNITS[found[2] or "s"] if found else 0.0
    return seconds if 0 < seconds <= MAX_SECONDS else None
