"""Names whose value may be a secret, in four strengths.

- `password`: any value is a secret, even a word of a few letters;
- `secret`: any value is a secret that is not a type, an example or a reference (`client_secret`, `api_key`);
- `token`: also what lexers produce; a value is a secret if it looks like one: eight characters, letters and digits;
- `key`: often the key of a table; only a value that looks random is a secret.
"""

from functools import lru_cache
from typing import Literal

from buddy.scrub.lazy import LazyPattern

Kind = Literal["password", "secret", "token", "key"]

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
    "pass": "",
    "uthorization": "a",
    "uth": "a",
    "bearer": "",
}
_NOT_WITHIN = {"pass": "(?![A-Za-z])"}  # most words that start with it are others: passed, passenger


def _ending() -> str:
    spelled = {spelling: before for end, before in _ENDS.items() for spelling in (end, end.capitalize(), end.upper())}
    groups: dict[str, list[str]] = {}
    for end in sorted(spelled, key=len, reverse=True):
        before = spelled[end]
        behind = f"(?<=[{before}{before.upper()}]{end[0]})" if before else ""
        groups.setdefault(end[0], []).append(behind + end[1:] + _NOT_WITHIN.get(end.lower(), ""))
    return "|".join(f"{first}(?:{'|'.join(rest)})" for first, rest in sorted(groups.items()))


ENDING = _ending()
# What may follow a telling name and belongs to it: SECRET_KEY_BASE, API_KEY_PROD, password2.
_SUFFIXES = ("base", "value", "prod", "production", "dev", "staging", "live", "test", "old", "new", "primary", "backup")
SUFFIX = rf"(?:_?\d{{1,2}}(?!\d)|_(?:{'|'.join([*_SUFFIXES, *map(str.upper, _SUFFIXES)])})(?![A-Za-z0-9]))?+"

# Every telling name ends with one of these, which excludes most names without a pattern.
_TELLING = (
    *("passwd", "password", "passphrase", "pwd", "pass", "token", "secret", "credential", "credentials", "key", "auth"),
    *("bearer", "authorization"),
)
_FOLDERS = ("PWD", "OLDPWD")
_SUFFIXED = LazyPattern(rf"(?<=[a-zA-Z]){SUFFIX}\Z")
_PASSWORD = LazyPattern(
    r"(?:passw(?:or)?d|passphrase|(?<![a-z])pwd"
    r"|(?:db|database|sql|mysql|postgres|pg|mongo|redis|rabbitmq|amqp|ldap|smtp|imap|pop3|mail|email|ftp|ssh|sudo|root|admin"
    r"|user|login|proxy|http|basic|auth|service|account|keystore|truststore|key|store|cert|ssl|wifi|vpn)[_\-.]?pass)$"
)
_ABOUT_PASSWORDS = LazyPattern(
    r"(?:^|[_\-. ])(?:show|hide|toggle|forgot(?:ten)?|reset|invalid|wrong|missing|is|has|use|no|needs?|requires?|allow"
    r"|check|verify|with|without)[_\-. ]?(?:user|master)?[_\-. ]?(?:passw(?:or)?d|passphrase)$"
)
_SECRET = LazyPattern(
    r"(?:secret|(?:^|[_\-.])pass"
    r"|(?:access|auth|api|refresh|session|oauth|bot|bearer|deploy|admin|service|webhook|github|gitlab|slack|npm|registry|jwt"
    r"|secret|private|user|app|login|security)[_\-. ]?token"
    r"|(?:api|secret|private|auth|encrypt(?:ion)?|sign(?:ing)?|master|shared|hmac|jwt|secret[_\-.]?access)[_\-. ]?key)$"
)
_TOKEN = LazyPattern(
    r"(?:token|credentials?"
    r"|(?:access|client|app|application|consumer|account"
    r"|service|license|subscription|storage|admin|deploy|integration|webhook|ssh|session)[_\-. ]?key"
    r"|_auth|bearer|authorization)$"
)
_KEY = LazyPattern(r"[a-z0-9][_\-.]?(?:key|auth)$")
_HARMLESS = LazyPattern(
    r"(?:public|sort|primary|foreign|cache|partition|group|object|dict|map|index|hash|lookup|unique|row|idempotency)"
    r"[_\-. ]?key$|(?:next|page|continuation|pagination|input|output|sync|cancel|cancellation|start|stop|pad|eos|bos"
    r"|max)[_-]?token$|(?:existing|pull|tls|image|has|is|use|no)[_-]?secret$"
    r"|(?:first|second|last|single|multi|two|one|render|final|next|ask|by|pre|post|per|all)[_\-.]?pass$"
)


@lru_cache(maxsize=1024)
def kind_of(name: str) -> Kind | None:
    """How telling a name is; None if it is not."""
    lowered = _SUFFIXED.sub("", name.rstrip("\n")).lower()
    if not lowered.endswith(_TELLING) or name in _FOLDERS or _HARMLESS.search(lowered):
        return None
    if _PASSWORD.search(lowered):
        return "token" if _ABOUT_PASSWORDS.search(lowered) else "password"
    if _SECRET.search(lowered):
        return "secret"
    if _TOKEN.search(lowered):
        return "token"
    return "key" if _KEY.search(lowered) else None
