"""Approval policies: `ask`, `auto`, `all`, `none`, or `until` (all until a moment); written as a word or a duration."""

import re

from msgspec import Struct

from buddy.approvals.deadlines import Deadline, Moment
from buddy.errors import ProtocolError
from buddy.protocol.codes import Policy
from buddy.protocol.durations import parse_duration
from buddy.protocol.shapes import BootTime

_UNTIL = re.compile(r"until:(\d{1,16})(?:/(\w{1,64})/(\d{1,16}))?", re.ASCII)


class EffectivePolicy(Struct, frozen=True):
    """A policy, when it expires, and the policy that is in force again after that."""

    policy: Policy
    expires: Deadline | None = None
    before: Policy = "ask"

    @property
    def expires_at(self) -> int | None:
        """Unix milliseconds."""
        return self.expires and self.expires.unix_ms

    @property
    def lasting(self) -> Policy:
        """The policy without its window."""
        return self.before if self.policy == "until" else self.policy

    def at(self, now: Moment) -> Policy:
        """The policy in force now; an `until` that has expired is what was before it."""
        if self.policy != "until":
            return self.policy
        return self.before if self.expires is None or self.expires.is_over(now) else "all"

    def text(self) -> str:
        """As it is recorded; the deadline on the boot clock is recorded, too, if it is known."""
        if self.policy != "until" or self.expires is None:
            return self.policy
        boot = self.expires.boot
        return f"until:{self.expires.unix_ms}" + (f"/{boot.boot}/{boot.ms}" if boot else "")


def parse_policy(text: str, now: Moment) -> EffectivePolicy:
    """Read `ask`, `auto`, `all`, `none`, a duration such as `10m`, or `until:UNIX_MS` as it is recorded."""
    if text in ("ask", "auto", "all", "none"):
        return EffectivePolicy(text)
    if until := _UNTIL.fullmatch(text):
        boot = BootTime(until[2], int(until[3])) if until[2] else None
        return EffectivePolicy("until", Deadline(int(until[1]), boot))
    seconds = parse_duration(text)
    if seconds is None:
        raise ProtocolError(
            "INVALID_REQUEST",
            f"unknown approval policy {text[:40]!r}. Use ask, auto, all, none or a duration such as 10m",
        )
    return EffectivePolicy("until", now.after(seconds))
