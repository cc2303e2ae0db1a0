"""Finds the environment variables that hold secrets, by their names."""

import re
from collections.abc import Iterator, Mapping

from buddy.scrub.lazy import LazyPattern

_NAME = LazyPattern(r"KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL|(?:^|_)(?:PASS|AUTH)$", re.IGNORECASE)
_PATH = LazyPattern(r"~?\.{0,2}/[^\s]*|[A-Za-z]:\\.*")


def is_secret_name(name: str) -> bool:
    """Whether a variable or a header of this name holds a secret."""
    return _NAME.search(name.replace("-", "_")) is not None


def secrets_of(env: Mapping[str, str]) -> Iterator[str]:
    """The values that must be hidden; a value that is a path only says where a secret is."""
    for name, value in env.items():
        if _NAME.search(name) and not _PATH.fullmatch(value):
            yield value
