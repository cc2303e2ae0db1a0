"""How long a tool waits before it acts."""

from buddy.errors import ToolError
from buddy.protocol.durations import parse_duration

MAX_DELAY = 600.0


def parse_delay(delay: str | int | None, delay_ms: int | None) -> float:
    """Seconds; ToolError if both are given, or if `delay` is not a duration."""
    if delay is not None and delay_ms is not None:
        raise ToolError("give delay or delay_ms, not both")
    seconds = (delay_ms or 0) / 1000 if delay is None else _seconds(str(delay))
    if seconds > MAX_DELAY:
        raise ToolError(f"a delay is at most {MAX_DELAY:g} s; call again later instead")
    return seconds


def _seconds(text: str) -> float:
    if text.strip().rstrip("ms") == "0":
        return 0.0
    seconds = parse_duration(text)
    if seconds is None:
        raise ToolError(f"delay: {text[:40]!r} is not a duration; give seconds, or 500ms, 2s, 1m")
    return seconds
