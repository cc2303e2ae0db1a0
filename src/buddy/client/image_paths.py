"""Images that a message names: a file that is dropped on a terminal arrives as its path.

Invariants: only a complete path to a file that exists counts (absolute, in the home directory, or after `@` from the
working directory), with the suffix of an image; quotes and escaped blanks are understood, as terminals write them.
"""

import os
import re
from urllib.parse import unquote

from buddy.images import MAX_IMAGES, SUFFIXES

_WORD = re.compile(r"""(?<!\S)(@?)(?:"([^"\n]+)"|'([^'\n]+)'|((?:\\[^\n]|[^\s\\"'])+))""")
_ESCAPED = re.compile(r"\\(.)")
MAX_PATH = 4096


def find_image_paths(text: str, directory: str) -> list[str]:
    """The files that a message names, in their order, each once."""
    if not any(suffix in text.lower() for suffix in SUFFIXES):
        return []
    found = (_path(match, directory) for match in _WORD.finditer(text))
    return list(dict.fromkeys(path for path in found if path))[:MAX_IMAGES]


def find_dropped(text: str) -> str:
    """The path of an image, if that is all of a pasted text."""
    text = text.strip()
    is_one = len(text) < MAX_PATH and (match := _WORD.match(text)) is not None and match.end() == len(text)
    return next(iter(find_image_paths(text, "/")), "") if is_one else ""


def quote_path(path: str) -> str:
    """A path as it stands in a message; without quotes it could be taken for a command."""
    return f"'{path}'" if '"' in path else f'"{path}"'


def _path(match: re.Match[str], directory: str) -> str:
    at, quoted, single, bare = match[1], match[2], match[3], match[4]
    path = quoted or single or _ESCAPED.sub(r"\1", bare)
    if path.startswith("file://"):
        path = unquote(path.removeprefix("file://"))
    path = os.path.expanduser(path)  # noqa: PTH111 - plain text
    if at and not path.startswith("/"):
        path = f"{directory.rstrip('/')}/{path}"
    if not path.startswith("/"):
        return ""
    candidates = (path, path.rstrip(".,;:!?)"))
    is_file = os.path.isfile  # it never raises, whatever somebody typed
    return next((one for one in candidates if one.lower().endswith(SUFFIXES) and is_file(one)), "")
