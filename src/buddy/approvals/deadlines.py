"""Deadlines on two clocks: the wall clock, which people read and can set, and the boot clock, which nobody can.

Invariants: a deadline is over as soon as one of the two says so, so setting the wall clock back extends nothing and
time that the machine slept counts; the boot clock is compared only within the boot that it was read in; `NEVER` is on
neither.
"""

from msgspec import Struct

from buddy.protocol.basics import NO_EXPIRY
from buddy.protocol.shapes import BootTime


class Moment(Struct, frozen=True):
    """Unix milliseconds and, if known, the boot clock at the same time."""

    unix_ms: int
    boot: BootTime | None = None

    def after(self, seconds: float) -> "Deadline":
        """The deadline that many seconds from now; `NEVER` if they are infinite, or too many for a client to count."""
        if not seconds * 1000 < NO_EXPIRY - self.unix_ms:
            return NEVER
        milliseconds = int(seconds * 1000)
        boot = self.boot and BootTime(self.boot.boot, self.boot.ms + milliseconds)
        return Deadline(self.unix_ms + milliseconds, boot)


class Deadline(Struct, frozen=True):
    """When something expires, on the wall clock and on the boot clock."""

    unix_ms: int
    boot: BootTime | None = None

    def seconds_left(self, now: Moment) -> float:
        """The shorter of what the two clocks leave; zero or less if it is over."""
        left = self.unix_ms - now.unix_ms
        if self.boot and now.boot and self.boot.boot == now.boot.boot:
            left = min(left, self.boot.ms - now.boot.ms)
        return left / 1000

    def is_over(self, now: Moment) -> bool:
        return self.seconds_left(now) <= 0


NEVER = Deadline(NO_EXPIRY)
