"""The limits that keep one client from harming another; `[limits]` in buddy.toml changes them."""

import math
from collections.abc import Callable, Mapping

import msgspec
from msgspec import Struct


class UserLimits(Struct, frozen=True, forbid_unknown_fields=True):
    """`[limits.user]`: what each user may have; None is unlimited. A day begins at midnight UTC."""

    sessions: int | None = None
    runs: int | None = None
    cost_usd_per_day: float | None = None


class Limits(Struct, frozen=True, forbid_unknown_fields=True):
    """Sizes are in bytes, times in seconds."""

    frame: int = 1024 * 1024
    connections: int = 1024
    hello_seconds: float = 10.0
    idle_seconds: float = 300.0
    in_flight: int = 32
    requests_per_second: float = 100.0
    burst: int = 200
    stalled_seconds: float = 30.0
    outbound: int = 4 * 1024 * 1024
    observers: int = 50
    active_runs: int = 128
    cost_usd_per_day: float | None = None
    """For all sessions together; None is unlimited. A day begins at midnight UTC."""
    user: UserLimits = UserLimits()
    children: int = 8
    child_depth: int = 2


def read_limits(table: Mapping[str, object], source: str = "") -> Limits:
    """The limits of a configuration table."""
    try:
        limits = msgspec.convert(dict(table), Limits)
    except msgspec.ValidationError as error:
        from buddy.config.validation import explain, origin_of

        raise explain(origin_of(source), ("limits",), error, Limits) from error
    _check_cost(limits.cost_usd_per_day, ("limits",), source)
    _check_cost(limits.user.cost_usd_per_day, ("limits", "user"), source)
    return limits


def _check_cost(usd: float | None, path: tuple[str, ...], source: str) -> None:
    # Checked here, because a bound of the type lets infinity pass.
    if usd is None or (math.isfinite(usd) and usd >= 0):
        return
    from buddy.config.validation import origin_of

    message = f"cost_usd_per_day in [{'.'.join(path)}] must be a number of US dollars, 0 or more, not {usd:g}"
    hint = "leave it out for no limit, or set it to 0 to refuse every run"
    raise origin_of(source).error((*path, "cost_usd_per_day"), message, hint)


class Rate:
    """A token bucket: a burst, refilled at a rate per second."""

    def __init__(self, per_second: float, burst: int, clock: Callable[[], float]) -> None:
        self._per_second = per_second
        self._burst = burst
        self._clock = clock
        self._left = float(burst)
        self._at = clock()

    def take(self) -> bool:
        """Take one token; False if none is left."""
        now = self._clock()
        self._left = min(self._burst, self._left + (now - self._at) * self._per_second)
        self._at = now
        if self._left < 1:
            return False
        self._left -= 1
        return True
