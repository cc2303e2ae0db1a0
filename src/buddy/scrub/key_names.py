"""Names whose value may be a secret, in three strengths.

- `password`: any value is a secret, even a word of a few letters;
- `token`: a value is a secret if it looks like one: eight characters, letters and digits;
- `key`: often the key of a table; only a value that looks random is a secret.
"""

from functools import lru_cache
from typing import Literal

from buddy.scrub.lazy import LazyPattern

Kind = Literal["password", "token", "key"]

# The endings of telling names (key, token, secret, credential, password, passwd, pwd, passphrase, auth, authorization,
# bearer), from their rarest letter on: a scan for these few letters costs a third of one for the full words. The value
# is the letters that may precede the ending, since most words with it are others (word, phrase, broken).
_ENDS = {
    "key": "",
    "ken": "o",
    "cret": "e",
    "credential": "",
    "credentials": "",
    "word": "s",
    "wd": "ps",
    "phrase": "s",
    "uthorization": "a",
    "uth": "a",
    "bearer": "",
}


def _ending() -> str:
    spelled = {spelling: before for end, before in _ENDS.items() for spelling in (end, end.capitalize(), end.upper())}
    groups: dict[str, list[str]] = {}
    for end in sorted(spelled, key=len, reverse=True):
        before = spelled[end]
        behind = f"(?<=[{before}{before.upper()}]{end[0]})" if before else ""
        groups.setdefault(end[0], []).append(behind + end[1:])
    return "|".join(f"{first}(?:{'|'.join(rest)})" for first, rest in sorted(groups.items()))


ENDING = _ending()

# Every telling name ends with one of these, which excludes most names without a pattern.
_TELLING = (
    *("passwd", "password", "passphrase", "pwd", "token", "secret", "credential", "credentials", "key", "auth"),
    *("bearer", "authorization"),
)
_PASSWORD = LazyPattern(r"(?:passw(?:or)?d|passphrase|(?<![a-z])pwd)$")
_TOKEN = LazyPattern(
    r"(?:token|secret|credentials?"
    r"|(?:api|access|private|secret|auth|client|app|application|consumer|encrypt(?:ion)?|sign(?:ing)?|master|account"
    r"|service|shared|license|subscription|storage|admin|deploy|integration|webhook|ssh|hmac|jwt|session)[_\-. ]?key"
    r"|_auth|bearer|authorization)$"
)
_KEY = LazyPattern(r"[a-z0-9][_\-.]?(?:key|auth)$")
_HARMLESS = LazyPattern(
    r"(?:public|sort|primary|foreign|cache|partition|group|object|dict|map|index|hash|lookup|unique|row|idempotency)"
    r"[_\-. ]?key$|(?:next|page|continuation|sync|cancel|cancellation|start|stop|pad|eos|bos|max)[_-]?token$"
)


@lru_cache(maxsize=1024)
def kind_of(name: str) -> Kind | None:
    """How telling a name is; None if it is not."""
    lowered = name.lower().rstrip("\n")
    if not lowered.endswith(_TELLING):
        return None
    if _PASSWORD.search(lowered):
        return "password"
    if _HARMLESS.search(lowered):
        return None
    if _TOKEN.search(lowered):
        return "token"
    return "key" if _KEY.search(lowered) else None
