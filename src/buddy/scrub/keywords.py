"""Values that a name beside them gives away: `api_key=…`, `"password": "…"`, `Authorization: Bearer …`.

What always holds: the name stays and only the value is masked; a value must hold a letter and a digit and must not go
on as code (`token = read2(…)`), so that normal source and prose pass unchanged; masking twice changes nothing.
"""

import re
import string

from buddy.scrub.values import MARK

# The end of a name and the sign after it: rare enough in any text that the closer looks below cost nothing.
_TAIL = re.compile(r"(key|token|secret|passwd|password|passphrase|authorization)\\?[\"']?\s{0,2}(?:=>|[:=])\s{0,2}")
_NAME = re.compile(
    r"(?:(?:api|access|private|secret|auth)[_-]?key|(?:access|auth|refresh|bearer|session|api|id)[_-]?token"
    r"|(?:client[_-]?|(?<![a-z]))secret|(?<![a-z])token|passwd|password|passphrase|authorization)$"
)
_LONGEST_NAME = 20
_SCHEME = re.compile(r"\\?[\"']?(?:bearer|basic|token)\s{1,2}")

_ANY = r"[^\s\"'\\]"
_BARE = r"[A-Za-z0-9_+/=~!@%^&*-]"
_LITERAL = r"(?![\[<{$])"  # neither a mark nor a template
_CREDENTIAL = re.compile(rf"{_LITERAL}{_ANY}{{8,}}")
_VALUE = re.compile(
    rf"\\?[\"']{_LITERAL}(?={_ANY}*[0-9])(?={_ANY}*[A-Za-z])({_ANY}{{8,}})(?=\\?[\"'])"
    rf"|(?={_BARE}*[0-9])(?={_BARE}*[A-Za-z])({_BARE}{{8,}}+)(?![\w.(\[{{<$:\\])"
)
_ASCII_LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


def mask(text: str) -> str:
    lowered = text.lower()
    if len(lowered) != len(text):
        # A few letters grow when lowered, and the two texts would no longer be in step.
        lowered = text.translate(_ASCII_LOWER)
    pieces: list[str] = []
    done = 0
    for tail in _TAIL.finditer(lowered):
        start, end = _value(text, lowered, tail) if tail.start() >= done else (0, 0)
        if end:
            pieces += (text[done:start], MARK)
            done = end
    return "".join([*pieces, text[done:]]) if pieces else text


def _value(text: str, lowered: str, tail: re.Match[str]) -> tuple[int, int]:
    """Where the value after a name lies; (0, 0) where there is none."""
    if not _NAME.search(lowered, max(0, tail.start() - _LONGEST_NAME), tail.end(1)):
        return 0, 0
    if tail[1] == "authorization":
        scheme = _SCHEME.match(lowered, tail.end())
        credential = _CREDENTIAL.match(text, scheme.end()) if scheme else None
        return credential.span() if credential else (0, 0)
    value = _VALUE.match(text, tail.end())
    return value.span(value.lastindex or 0) if value else (0, 0)
