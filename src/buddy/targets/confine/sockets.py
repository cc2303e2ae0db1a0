"""The Unix sockets of other programs in the file system: a read-only mount does not disable them."""

import os
import stat
from pathlib import Path

LISTED = Path("/proc/net/unix")


def bound_sockets() -> list[str]:
    """The paths of all current ones; sockets of other network namespaces are not listed."""
    try:
        lines = LISTED.read_text(encoding="utf-8", errors="surrogateescape").splitlines()[1:]
    except OSError:
        return []
    paths = dict.fromkeys(fields[7] for line in lines if len(fields := line.split(maxsplit=7)) > 7)
    return [path for path in paths if path.startswith("/") and _is_socket(path)]


def _is_socket(path: str) -> bool:
    try:
        return stat.S_ISSOCK(os.lstat(path).st_mode)
    except OSError:
        return False
