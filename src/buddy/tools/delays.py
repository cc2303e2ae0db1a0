"""How long a tool was asked to wait before it acts."""

import re

from buddy.errors import ToolError

SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "": 1.0}
MAX_DELAY = 600.0


def parse_delay(delay: str | int | None, delay_ms: int | None) -> float:
    """Seconds; ToolError where both were given, or neither is a duration."""
    if delay is not None and delay_ms is not None:
        raise ToolError("give delay or delay_ms, not both")
    seconds = (delay_ms or 0) / 1000 if delay is None else _parse(str(delay))
    if seconds > MAX_DELAY:
        raise ToolError(f"a delay may be {MAX_DELAY:g} s at most; look again later instead")
    return seconds


def _parse(text: str) -> float:
    parts = re.fullmatch(r"(\d{1,9})(ms|s|m)?", text.strip())
    if parts is None:
        raise ToolError(f"delay: {text[:40]!r} is no duration; give seconds, or like 500ms, 2s, 1m")
    return int(parts[1]) * SECONDS[parts[2] or ""]
