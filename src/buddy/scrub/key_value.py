"""Layer 2: values that follow a telling name.

`api_key=…`, `"password": "…"`, `<token>…</token>`, `--client-secret …`, `Authorization: Bearer …`, `-u user:…`,
`scheme://user:…@host`.

Invariants: the name stays and only the value is hidden (of an Authorization header, everything after the name); name,
sign and value are on one line, a few blanks apart; what continues as code (`token = read2(…)`) is not a value.
"""

import re
from collections.abc import Iterator

from buddy.scrub.entropy import bits
from buddy.scrub.key_names import ENDING, Kind, kind_of
from buddy.scrub.lazy import LazyPattern
from buddy.scrub.marks import NOT_AFTER_MARK, OPENING, Span

LONGEST = 200
LONGEST_IN_PROSE = 16

_SIGN = r"(?:=>|:=|={1,3}|:|>)"
_CLOSED = r"[\"'\\\]]{0,4}"
_NAMED = LazyPattern(rf"(?:{ENDING})(?:{_CLOSED}[ \t]{{0,8}}{_SIGN}|(?=[ \t]))[ \t]{{0,8}}")
_BEFORE = LazyPattern(rf"-{{0,2}}{NOT_AFTER_MARK}[A-Za-z0-9_.-]{{0,60}}\Z")

_QUOTED = LazyPattern(
    rf"\"((?:[^\"\\\n]|\\[^\n]){{1,{LONGEST}}}+)\"|'((?:[^'\\\n]|\\[^\n]){{1,{LONGEST}}}+)'"
    rf"|\\[\"']([^\"'\\\n]{{1,{LONGEST}}}+)\\[\"']"
)
_BARE = LazyPattern(r"([A-Za-z0-9_+/=~!@%^*#-]{6,}+)(?![\w.(\[{$:\\])")
_SETTING = LazyPattern(r"([^\s\"'\\`;,(){}\[\]<>$]{6,}+)")  # NAME=value, as in an environment: no code follows
_QUERY = LazyPattern(r"([^\s\"'\\&#<>\[]{6,}+)")
_CREDENTIAL = LazyPattern(
    r"(\\?[\"']?)((?:bearer|basic|token|digest|negotiate|api-?token|api-?key|key|hmac|jwt|oauth|ntlm|splunk|bot)"
    r"[ \t]{1,2})?("
    r"[^\s\"'\\,;<>\[\]{}$]{6,}+)",
    re.IGNORECASE,
)
_USERINFO = LazyPattern(r"://([^\s/:@\"'<>\[\]]{0,64}):([^\s/@\"'<>\[\]]{3,200}+)@")
_USER = LazyPattern(
    r"-(?<!\S-)(?:u|-user)[ \t=]{0,2}[\"']?([^\s:\"'\[\]]{0,64})[\"']?:[\"']?([^\s\"'\[\]]{0,100}+)(?!\[)"
)

_UNCLOSED = (
    rf"\"(?:[^\"\\\n]|\\[^\n]){{0,{LONGEST}}}+|'(?:[^'\\\n]|\\[^\n]){{0,{LONGEST}}}+|\\[\"'][^\"'\\\n]{{0,{LONGEST}}}+"
)
_OPEN = LazyPattern(
    rf"(?:{ENDING}){_CLOSED}[ \t]{{0,8}}(?:{_SIGN}[ \t]{{0,8}})?"
    rf"(?:{_UNCLOSED}|\\?[\"']?[A-Za-z-]{{3,9}}[ \t]{{1,2}})?\Z"
    r"|(?:-u|--user)[ \t=]{0,2}\Z"
)
_OPEN_WITHIN = 500

_PLACEHOLDER = LazyPattern(
    r"[\[<{$%(*&\s,:;)\]}]|.*(?:\$\{|\{\{|\.\.\.|…|\*\*\*|xxxx)|your|example|change_?me|none\b|null\b|true\b|false\b|undefined\b"
    r"|(?:~|\.{1,2})?/[^\s]*/|[a-z]+://|os\.|self\.|process\.",
    re.IGNORECASE,
)
_EXAMPLE = LazyPattern(r"(?i:pass|passw(?:or)?d|pw|pwd|secret|token|user|pat|key|api_?key|staff|root|admin|wheel)")
_BRACED = LazyPattern(r"\{(?=[^A-Z]*[A-Z])(?=[^a-z]*[a-z])(?=[^0-9]*[0-9])[A-Za-z0-9]{8,}\}")
_ONE_WORD = "[A-Za-z][a-z]*+(?:[A-Z][a-z]{2,}+)*+"
_WORD = LazyPattern(rf"{_ONE_WORD}(?:[ _.,:;!?'-]++{_ONE_WORD})*+[.!?:]?|[A-Z_]+|[\d.,:-]+")
_LETTER_AND_DIGIT = LazyPattern(r"(?=[^A-Za-z]*[A-Za-z])(?=[^0-9]*[0-9])")
_TOKENISH = LazyPattern(r"[A-Za-z0-9+/=_.~|-]{16,}")
_HASH = LazyPattern(r"(?:[0-9a-fA-F]{32}|[0-9a-fA-F]{40}|[0-9a-fA-F]{64})|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_CAMEL = LazyPattern(r"(?:[A-Z]?[a-z]{2,}+\d{0,2}+|[A-Z]{2,}+\d{0,2}+|[._-])++")


def spans(text: str) -> Iterator[Span]:
    for named in _NAMED.finditer(text):
        span = _value(text, named)
        if span:
            yield span
    if "://" in text:
        yield from (hit.span(2) for hit in _USERINFO.finditer(text) if _is_login(hit[1], hit[2]))
    if "-u" in text:
        yield from _users(text)


def open_at(text: str, following: str = "") -> int:
    """The position from which the end of this text could be a name that waits for its value; else its length.

    `following` is the next character if it is known: prose about a password holds nothing back.
    """
    at = max(0, len(text) - _OPEN_WITHIN)
    while found := _OPEN.search(text, at):
        if _is_waiting(text, found, following):
            return found.start()
        at = found.start() + 1
    return len(text)


def _is_waiting(text: str, found: re.Match[str], following: str) -> bool:
    """Whether this is a telling name whose sign or value may still follow."""
    before = _BEFORE.search(text, max(0, found.start() - 62), found.start())
    if found[0].startswith("-") or before is None:
        return before is not None
    end = _NAME_END.match(found[0])
    name, rest = text[before.start() : found.start()] + (end[0] if end else ""), found[0][end.end() if end else 0 :]
    is_header = name.lower().endswith("authorization")
    if not is_header and kind_of(name.lstrip("-")) is None:
        return False
    if _SIGNED.match(rest):
        return is_header or not _WORD_AND_BLANK.search(rest)
    if _is_flag(name) or _may_be_flag(name):
        return not _WORD_AND_BLANK.search(rest)
    return _UNSIGNED.fullmatch(rest) is not None and (not following or following in "=:>\"'\\] \t")


def is_secret(kind: Kind, value: str, *, quoted: bool) -> bool:
    """Whether a value that follows a name of this kind must be hidden."""
    if OPENING in value or _PLACEHOLDER.match(value):
        return False
    if kind == "password":
        return _is_password(value) if quoted else _is_bare_password(value)
    if len(value) < 8 or not _LETTER_AND_DIGIT.match(value) or " " in value:
        return False
    if kind != "key":
        return quoted or not _CAMEL.fullmatch(value)
    return bool(_TOKENISH.fullmatch(value)) and not _HASH.fullmatch(value) and _is_mixed(value)


def _is_password(value: str) -> bool:
    if len(value) < 4 or _PLACEHOLDER.match(value):
        return False
    is_phrase = " " in value
    return not _WORD.fullmatch(value) and (not is_phrase or bool(_LETTER_AND_DIGIT.match(value) and len(value) >= 12))


def _is_bare_password(value: str) -> bool:
    """Without quotes it may be a name in code, but those seldom have a digit."""
    return bool(_LETTER_AND_DIGIT.match(value)) and " " not in value


def _is_set(kind: Kind, value: str) -> bool:
    """A password as it is given to a program: of words, too."""
    is_example = value.isupper() or _EXAMPLE.fullmatch(value) or _PLACEHOLDER.match(value)
    return kind == "password" and not is_example


def _is_login(user: str, password: str) -> bool:
    """Whether `user:password` is more than an example, a port or a group."""
    if len(password) < 3 or password in (user, "$") or password.isdigit():
        return False
    if _BRACED.fullmatch(password):
        return True
    return not _PLACEHOLDER.match(password) and not _EXAMPLE.fullmatch(password)


def _is_mixed(value: str) -> bool:
    return bits(value) >= 3.3 and not _CAMEL.fullmatch(value) and sum(map(str.isdigit, value)) >= 3


def _value(text: str, named: re.Match[str]) -> Span | None:
    before = _BEFORE.search(text, max(0, named.start() - 62), named.start())
    if before is None:
        return None
    gap = _NAMED_GAP.search(named[0])
    name = text[before.start() : named.start()] + named[0][: gap.start() if gap else None]
    sign = gap[0].strip(" \t\"'\\]") if gap else ""
    if name.lower().endswith("authorization") and sign:
        return _credential(text, named.end())
    kind = kind_of(name.lstrip("-"))
    if kind is None or not (sign or _is_flag(name)):
        return None
    return _literal(text, named.end(), kind, name, gap[0] if gap else "")


_NAME_END = LazyPattern(r"[A-Za-z]+")
_UNSIGNED = LazyPattern(rf"{_CLOSED}[ \t]{{0,8}}")
_SIGNED = LazyPattern(rf"{_CLOSED}[ \t]{{0,8}}{_SIGN}")
_WORD_AND_BLANK = LazyPattern(r"[A-Za-z-]{3,9}[ \t]{1,2}\Z")
_NAMED_GAP = LazyPattern(r"[^A-Za-z][^\n]*\Z")


def _is_flag(name: str) -> bool:
    return name.startswith("-") or name.lower() == "bearer"


def _may_be_flag(name: str) -> bool:
    """Whether it becomes a flag once a random word at its start is hidden."""
    return len(name) > LONGEST_IN_PROSE and ("-" in name or name.lower().endswith("bearer"))


def _literal(text: str, at: int, kind: Kind, name: str, gap: str) -> Span | None:
    quoted = _QUOTED.match(text, at)
    if quoted:
        found = quoted.lastindex or 0
        return quoted.span(found) if is_secret(kind, quoted[found], quoted=True) else None
    form = _bare(text, at, name, gap)
    bare = form.match(text, at)
    is_hidden = bare and (is_secret(kind, bare[1], quoted=False) or (form is _SETTING and _is_set(kind, bare[1])))
    return bare.span(1) if bare and is_hidden else None


def _bare(text: str, at: int, name: str, gap: str) -> LazyPattern:
    start = at - len(gap) - len(name)
    if gap == "=" and start > 0 and text[start - 1] in "?&":
        return _QUERY
    return _SETTING if gap == "=" and name.isupper() else _BARE


def _credential(text: str, at: int) -> Span | None:
    found = _CREDENTIAL.match(text, at)
    if found is None or OPENING in found[3] or _PLACEHOLDER.match(found[3]) or _is_prose(found[3]):
        return None
    if not found[2] and not _LETTER_AND_DIGIT.match(found[3]):
        return None
    return (found.start(2) if found[2] else found.start(3)), found.end(3)


def _is_prose(word: str) -> bool:
    return len(word) < LONGEST_IN_PROSE and _WORD.fullmatch(word) is not None


def _users(text: str) -> Iterator[Span]:
    for hit in _USER.finditer(text):
        group = 2 if hit[2] else 1
        if _is_login(hit[3 - group], hit[group]):
            yield hit.span(group)
