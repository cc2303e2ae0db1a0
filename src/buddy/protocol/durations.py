"""Durations as people and models write them: `500ms`, `30s`, `10m`, `1h`, `2d`, or a bare number of seconds."""

import re

from buddy.protocol.basics import MAX_SECONDS

_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"(\d{1,12}(?:\.\d+)?)(ms|s|m|h|d)?")


def parse_duration(text: str) -> float | None:
    """The duration in seconds; None for anything else, and for zero."""
    found = _DURATION.fullmatch(text.strip())
    seconds = float(found[1]) * _SECONDS[found[2] or "s"] if found else 0.0
    return seconds if 0 < seconds <= MAX_SECONDS else None
