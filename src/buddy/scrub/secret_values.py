"""Decides whether the value that follows a telling name is a secret, or a word, an example, a reference or code.

Invariants: the answer depends on the kind of name, how the value is written, and the value alone; a value that contains
a mark is never a secret again; the work is bounded by `JUDGED_FIELD` characters.
"""

import re
from typing import Literal

from buddy.scrub.entropy import bits
from buddy.scrub.key_names import Kind
from buddy.scrub.lazy import LazyPattern
from buddy.scrub.marks import OPENING

JUDGED_FIELD = 4096
LONGEST_IN_PROSE = 16

Form = Literal["quoted", "compared", "bare", "line", "setting"]
"""How a value is written: in quotes (after `==`: compared), within a line, at the end of a line, or as `NAME=value`."""

_PLACEHOLDER = LazyPattern(
    r"[\[<{(\s,:;)\]}]|[$%*&]+[A-Za-z_]\w*%?(?:\W|\Z)|[$%*&]+(?:\W|\Z)|your|example|change_?me|change-me|replace"
    r"|(?:none|null|true|false|undefined)\b|(?:~|\.{1,2})?/[^\s]*/|(?:~|\.{1,2})?/[A-Za-z._-]*\Z|[a-z]+://|os\.|self\.|this\."
    r"|process\.|arn:|vault:|env:|file:|ENC\[",
    re.IGNORECASE,
)
_ELISIONS = ("${", "$(", "{{", "...", "…", "***")
_EXAMPLE = LazyPattern(r"(?i:pass|passw(?:or)?d|pw|pwd|secret|token|user|pat|key|api_?key|staff|root|admin|wheel)")
_BRACED = LazyPattern(r"\{(?=[^A-Z]*[A-Z])(?=[^a-z]*[a-z])(?=[^0-9]*[0-9])[A-Za-z0-9]{8,}\}")
_ONE_WORD = "[A-Za-z][a-z]*+(?:[A-Z][a-z]{2,}+)*+"
_WORDS = LazyPattern(rf"{_ONE_WORD}(?:[ _.,:;!?'-]++{_ONE_WORD})*+[.!?:]?|[A-Z_]+")
_NUMBER = LazyPattern(r"[\d.,:-]+")
_LETTER_AND_DIGIT = LazyPattern(r"(?=[^A-Za-z]*[A-Za-z])(?=[^0-9]*[0-9])")
_TOKENISH = LazyPattern(r"[A-Za-z0-9+/=_.~|-]{16,}")
_HASH = LazyPattern(r"(?:[0-9a-fA-F]{32}|[0-9a-fA-F]{40}|[0-9a-fA-F]{64})|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_CAMEL = LazyPattern(r"(?:[A-Z]?[a-z]{2,}+\d{0,2}+|[A-Z]{2,}+\d{0,2}+|[._-])++")

# What people choose as a password: a word, or several with a hyphen or underscore between them.
_PLAIN = LazyPattern(r"[A-Za-z]?[a-z]+(?:[_-][a-z]+)*")
_LOWER = LazyPattern(r"[a-z]+(?:-[a-z]+)*")
_PHRASE = LazyPattern(r"[a-z]{3,}(?: [a-z]{3,}){2,9}")
_PROSE = LazyPattern(
    r"\b(?:the|your|you|for|and|not|are|was|with|this|that|must|please|enter|use|used|when|from|has|have|will|can|should"
    r"|may|too|any|all|one|new|set|get|pass\w*|secrets?|tokens?|keys?|characters|value)\b"
)
_REFERENCE = LazyPattern(
    r"pass|token|key|cred|auth|login|(?:^|[_-])secrets?(?:$|[_-])|^(?:my|your|client|app|test|some|the|user)secret"
    r"|^(?:dummy|sample|fake|foo|placeholder|insert|todo|fixme|default|same|not|no)(?:$|[_-])|here$|[_-]only$",
    re.IGNORECASE,
)
_OWN_NAME = LazyPattern(
    r"(?:(?:my|your|the|a|new|old|no|user|some|test|db|current|invalid|wrong|bad)[_-]?)*(?:passw(?:or)?d|passphrase|pass"
    r"|secret|token|api[_-]?key|credentials?)s?(?:[_-](?:required|here|field|hash|file|text|input|value))*",
    re.IGNORECASE,
)
_FILE = LazyPattern(r"[\w/-]+\.(?:pem|key|crt|json|ya?ml|toml|txt|env|py|js|ts|conf|ini|gpg|p12|jks)")
_CODE = LazyPattern(r"[A-Za-z_]\w*(?:(?:\.|->|::)\w+)*(?:[(\[].*)?", re.DOTALL)
_OPERATORS = ("&&", "||", "==", "=>", "??")
# Types, settings, labels and what lexers call tokens: never a password that matters.
_ORDINARY_WORDS = """
string strings str text texts integer number numeric boolean object bytes array binary buffer unicode secretstr
function callable class value values variable parameter argument default defaults example sample placeholder dummy
hidden visible masked redacted encrypted hashed plain plaintext required optional enabled disabled allowed denied
missing invalid expired generated automatic random unknown nothing empty unset undefined include exclude omit
same-origin always never prompt stdin stdout keyring keychain inherit request response header cookie bearer basic
digest private public internal external local global session account minutes seconds hours position marker cursor
offset comment keyword operator identifier punctuation delimiter constant namespace regexp entity storage support
attribute property literal whitespace newline symbol struct lambda rbracket lbracket lparen rparen passwort kennwort
wachtwoord senha heslo parola salasana adgangskode passord contrasenya expected actual available current previous
original result output input foobar changeit
"""
_ORDINARY = frozenset(_ORDINARY_WORDS.split())


def is_secret(kind: Kind, value: str, *, form: Form) -> bool:
    """Whether a value that follows a name of this kind must be hidden."""
    value = value[:JUDGED_FIELD]
    if OPENING in value or is_placeholder(value):
        return False
    if kind == "password" and form in ("quoted", "compared"):
        return _is_quoted_password(value, form)
    if _is_random(kind, value, form):
        return True
    match form:
        case "setting":
            return _is_setting(kind, value)
        case "line":
            return _is_line(kind, value)
        case "quoted":
            return kind != "key" and _is_quoted_token(kind, value)
        case _:
            return False


def is_login(user: str, password: str) -> bool:
    """Whether `user:password` is more than an example, a port or a group."""
    if len(password) < 3 or password in (user, "$") or password.isdigit():
        return False
    if _BRACED.fullmatch(password):
        return True
    return not is_placeholder(password) and not _EXAMPLE.fullmatch(password)


def is_credential(word: str, *, has_scheme: bool) -> bool:
    """Whether a word in an Authorization header is a credential, rather than prose about one."""
    if is_placeholder(word) or (len(word) < LONGEST_IN_PROSE and _is_prose(word)):
        return False
    return has_scheme or has_letter_and_digit(word)


def is_placeholder(value: str) -> bool:
    if _PLACEHOLDER.match(value):
        return True
    line = value.partition("\n")[0]
    return any(sign in line for sign in _ELISIONS) or "xxxx" in line.lower()


def is_code(value: str, following: str) -> bool:
    """Whether a bare value is an expression: a call, an index, an attribute."""
    if any(operator in value for operator in _OPERATORS):
        return True
    return _CODE.fullmatch(value) is not None and (following in ("(", "[") or not value.replace("_", "").isalnum())


def has_letter_and_digit(value: str) -> bool:
    return _LETTER_AND_DIGIT.match(value) is not None


def _is_prose(value: str) -> bool:
    return _WORDS.fullmatch(value) is not None or _NUMBER.fullmatch(value) is not None


def _is_quoted_password(value: str, form: Form) -> bool:
    if len(value) < 4:
        return False
    if " " in value:
        is_phrase = _PHRASE.fullmatch(value) and not _PROSE.search(value)
        return bool(is_phrase) or (not _is_prose(value) and has_letter_and_digit(value) and len(value) >= 12)
    if _NUMBER.fullmatch(value):
        return form == "quoted" and len(value) >= 6 and value.isdigit()
    if not _WORDS.fullmatch(value):
        return True
    is_name = _OWN_NAME.fullmatch(value) is not None or value.lower() in _ORDINARY
    return form == "quoted" and len(value) >= 6 and _PLAIN.fullmatch(value) is not None and not is_name


def _is_random(kind: Kind, value: str, form: Form) -> bool:
    """With digits it is hardly a word."""
    if " " in value or not has_letter_and_digit(value):
        return False
    if kind == "password":
        return True
    if len(value) < 8:
        return False
    if kind != "key":
        return form in ("quoted", "compared", "setting") or not _CAMEL.fullmatch(value)
    return bool(_TOKENISH.fullmatch(value)) and not _HASH.fullmatch(value) and _is_mixed(value)


def _is_setting(kind: Kind, value: str) -> bool:
    """A value as it is given to a program: of words, too."""
    if kind == "key" or _EXAMPLE.fullmatch(value) or value.isupper() or (kind != "password" and _is_named(value)):
        return False
    return kind == "password" or not _NUMBER.fullmatch(value)


def _is_line(kind: Kind, value: str) -> bool:
    """The end of a line, in a format that needs no quotes: a word in small letters, which types and classes are not."""
    if kind in ("token", "key"):
        return False
    is_telling = kind == "password" if value.isdigit() else _LOWER.fullmatch(value) is not None
    return is_telling and not _is_named(value)  # the slowest check comes last


def _is_quoted_token(kind: Kind, value: str) -> bool:
    if " " in value or _NUMBER.fullmatch(value) or _is_named(value) or _FILE.fullmatch(value):
        return False
    if _PLAIN.fullmatch(value):
        return (
            value.islower() and len(value) >= (6 if kind == "secret" else 8) and (kind == "secret" or "_" not in value)
        )
    return len(value) >= 12 and value.isascii() and value.isalnum() and not _CAMEL.fullmatch(value)


def _is_named(value: str) -> bool:
    """Whether it says where a secret comes from, or what it is."""
    return _REFERENCE.search(value) is not None or value.lower() in _ORDINARY


def _is_mixed(value: str) -> bool:
    return bits(value) >= 3.3 and not _CAMEL.fullmatch(value) and sum(map(str.isdigit, value)) >= 3
