"""Layer 2: values that follow a telling name.

`api_key=…`, `"password": "…"`, `<token>…</token>`, `--client-secret …`, `Authorization: Bearer …`, `-u user:…`,
`scheme://user:…@host`.

Invariants: the name stays and only the value is hidden (of an Authorization header, everything after the name); name,
sign and value are on one line, a few blanks apart; what continues as code (`token = read2(…)`) is not a value. The work
is linear in the text: where a word ends is found once for all names in it, and a value is judged by its first
`JUDGED` characters.
"""

import re
from collections.abc import Iterator

from buddy.scrub.entropy import bits
from buddy.scrub.key_names import ENDING, Kind, kind_of
from buddy.scrub.lazy import LazyPattern
from buddy.scrub.marks import OPENING, Span

LONGEST = 200
LONGEST_IN_PROSE = 16
SHORTEST = 6
JUDGED = 256
JUDGED_FIELD = 4096

_SIGN = r"(?:=>|:=|={1,3}|:|>)"
_CLOSED = r"[\"'\\\]]{0,4}"
_NAMED = LazyPattern(rf"(?:{ENDING})(?:{_CLOSED}[ \t]{{0,8}}{_SIGN}|(?=[ \t]))[ \t]{{0,8}}")
_NAME_CHARACTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-"
_LONGEST_NAME = 60

_QUOTED = LazyPattern(
    rf"\"((?:[^\"\\\n]|\\[^\n]){{1,{LONGEST}}}+)\"|'((?:[^'\\\n]|\\[^\n]){{1,{LONGEST}}}+)'"
    rf"|\\[\"']([^\"'\\\n]{{1,{LONGEST}}}+)\\[\"']"
)
_BARE = LazyPattern(r"[A-Za-z0-9_+/=~!@%^*#-]*+")
_CONTINUED = LazyPattern(r"[\w.(\[{$:\\]")  # after a bare value: it is code
_SETTING = LazyPattern(r"[^\s\"'\\`;,(){}\[\]<>$]*+")  # NAME=value, as in an environment: no code follows
_QUERY = LazyPattern(r"[^\s\"'\\&#<>\[]*+")
_SCHEME = LazyPattern(
    r"(\\?[\"']?)((?:bearer|basic|token|digest|negotiate|api-?token|api-?key|key|hmac|jwt|oauth|ntlm|splunk|bot)"
    r"[ \t]{1,2})?",
    re.IGNORECASE,
)
_CREDENTIAL = LazyPattern(r"[^\s\"'\\,;<>\[\]{}$]*+")
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
_OPEN_WITHIN = 64
_OPEN_QUOTE_WITHIN = 500

_PLACEHOLDER = LazyPattern(
    r"[\[<{$%(*&\s,:;)\]}]|your|example|change_?me|none\b|null\b|true\b|false\b|undefined\b"
    r"|(?:~|\.{1,2})?/[^\s]*/|[a-z]+://|os\.|self\.|process\.",
    re.IGNORECASE,
)
_ELISIONS = ("${", "{{", "...", "…", "***")
_EXAMPLE = LazyPattern(r"(?i:pass|passw(?:or)?d|pw|pwd|secret|token|user|pat|key|api_?key|staff|root|admin|wheel)")
_BRACED = LazyPattern(r"\{(?=[^A-Z]*[A-Z])(?=[^a-z]*[a-z])(?=[^0-9]*[0-9])[A-Za-z0-9]{8,}\}")
_ONE_WORD = "[A-Za-z][a-z]*+(?:[A-Z][a-z]{2,}+)*+"
_WORD = LazyPattern(rf"{_ONE_WORD}(?:[ _.,:;!?'-]++{_ONE_WORD})*+[.!?:]?|[A-Z_]+|[\d.,:-]+")
_LETTER_AND_DIGIT = LazyPattern(r"(?=[^A-Za-z]*[A-Za-z])(?=[^0-9]*[0-9])")
_TOKENISH = LazyPattern(r"[A-Za-z0-9+/=_.~|-]{16,}")
_HASH = LazyPattern(r"(?:[0-9a-fA-F]{32}|[0-9a-fA-F]{40}|[0-9a-fA-F]{64})|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_CAMEL = LazyPattern(r"(?:[A-Z]?[a-z]{2,}+\d{0,2}+|[A-Z]{2,}+\d{0,2}+|[._-])++")


class RunEnds:
    """Where the words of a text end, by what counts as part of a word; each word is scanned once."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._latest: dict[LazyPattern, Span] = {}

    def find(self, characters: LazyPattern, at: int) -> int:
        start, end = self._latest.get(characters, (0, 0))
        if not start <= at < end:
            run = characters.match(self._text, at)
            end = run.end() if run else at
            self._latest[characters] = at, end
        return end


def spans(text: str) -> Iterator[Span]:
    ends = RunEnds(text)
    for named in _NAMED.finditer(text):
        span = _value(text, named, ends)
        if span:
            yield span
    if "://" in text:
        yield from (hit.span(2) for hit in _USERINFO.finditer(text) if _is_login(hit[1], hit[2]))
    if "-u" in text:
        yield from _users(text)


def open_at(text: str, end: int, start: int = 0) -> int:
    """From where the text up to `end` could be a name that waits for its value; `end` if it can't.

    The next character, if it is known, helps: prose about a password holds nothing back.
    """
    has_quote = max(text.rfind('"', max(start, end - 450), end), text.rfind("'", max(start, end - 450), end)) >= 0
    at = max(start, end - (_OPEN_QUOTE_WITHIN if has_quote else _OPEN_WITHIN))
    while found := _OPEN.search(text, at, end):
        if _is_waiting(text, found, text[end : end + 1], start):
            return found.start()
        at = found.start() + 1
    return end


def _is_waiting(text: str, found: re.Match[str], following: str, start: int) -> bool:
    """Whether this is a telling name whose sign or value may still follow."""
    begin = _name_start(text, found.start(), start)
    if found[0].startswith("-") or begin is None:
        return begin is not None
    end = _NAME_END.match(found[0])
    name, rest = text[begin : found.start()] + (end[0] if end else ""), found[0][end.end() if end else 0 :]
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
    value = value[:JUDGED_FIELD]
    if OPENING in value or _is_placeholder(value):
        return False
    if kind == "password":
        return _is_password(value) if quoted else _is_bare_password(value)
    if len(value) < 8 or not _LETTER_AND_DIGIT.match(value) or " " in value:
        return False
    if kind != "key":
        return quoted or not _CAMEL.fullmatch(value)
    return bool(_TOKENISH.fullmatch(value)) and not _HASH.fullmatch(value) and _is_mixed(value)


def _is_password(value: str) -> bool:
    if len(value) < 4:
        return False
    is_phrase = " " in value
    return not _WORD.fullmatch(value) and (not is_phrase or bool(_LETTER_AND_DIGIT.match(value) and len(value) >= 12))


def _is_bare_password(value: str) -> bool:
    """Without quotes it may be a name in code, but those seldom have a digit."""
    return bool(_LETTER_AND_DIGIT.match(value)) and " " not in value


def _is_placeholder(value: str) -> bool:
    if _PLACEHOLDER.match(value):
        return True
    line = value.partition("\n")[0]
    return any(sign in line for sign in _ELISIONS) or "xxxx" in line.lower()


def _is_set(kind: Kind, value: str) -> bool:
    """A password as it is given to a program: of words, too."""
    is_example = value.isupper() or _EXAMPLE.fullmatch(value) or _is_placeholder(value)
    return kind == "password" and not is_example


def _is_login(user: str, password: str) -> bool:
    """Whether `user:password` is more than an example, a port or a group."""
    if len(password) < 3 or password in (user, "$") or password.isdigit():
        return False
    if _BRACED.fullmatch(password):
        return True
    return not _is_placeholder(password) and not _EXAMPLE.fullmatch(password)


def _is_mixed(value: str) -> bool:
    return bits(value) >= 3.3 and not _CAMEL.fullmatch(value) and sum(map(str.isdigit, value)) >= 3


def _name_start(text: str, end: int, start: int = 0) -> int | None:
    """Where a name that goes on at `end` begins; None if it follows a mark directly, which is another word."""
    before = text[max(start, end - _LONGEST_NAME - 2) : end]
    size = len(before) - len(before.rstrip(_NAME_CHARACTERS))
    # Up to two dashes are not counted.
    dashes = 2 if text.startswith("--", end - size) else int(text.startswith("-", end - size))
    begin = end - min(size, _LONGEST_NAME + dashes)
    is_after_mark = text.endswith(("CTED]", "ropy]"), 0, begin) and not (size and dashes)
    if not is_after_mark:
        return begin
    return begin + 1 if size else None


def _value(text: str, named: re.Match[str], ends: RunEnds) -> Span | None:
    begin = _name_start(text, named.start())
    if begin is None:
        return None
    gap = _NAMED_GAP.search(named[0])
    name = text[begin : named.start()] + named[0][: gap.start() if gap else None]
    sign = gap[0].strip(" \t\"'\\]") if gap else ""
    if name.lower().endswith("authorization") and sign:
        return _credential(text, named.end(), ends)
    kind = kind_of(name.lstrip("-"))
    if kind is None or not (sign or _is_flag(name)):
        return None
    return _literal(text, named.end(), kind, name, gap[0] if gap else "", ends)


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


def _literal(text: str, at: int, kind: Kind, name: str, gap: str, ends: RunEnds) -> Span | None:
    quoted = _QUOTED.match(text, at)
    if quoted:
        found = quoted.lastindex or 0
        return quoted.span(found) if is_secret(kind, quoted[found], quoted=True) else None
    form = _bare(text, at, name, gap)
    end = ends.find(form, at)
    if end - at < SHORTEST or (form is _BARE and _CONTINUED.match(text, end)):
        return None
    value = text[at : min(end, at + JUDGED)]
    is_hidden = is_secret(kind, value, quoted=False) or (form is _SETTING and _is_set(kind, value))
    return (at, end) if is_hidden else None


def _bare(text: str, at: int, name: str, gap: str) -> LazyPattern:
    start = at - len(gap) - len(name)
    if gap == "=" and start > 0 and text[start - 1] in "?&":
        return _QUERY
    return _SETTING if gap == "=" and name.isupper() else _BARE


def _credential(text: str, at: int, ends: RunEnds) -> Span | None:
    opening = _SCHEME.match(text, at)
    if opening is None:
        return None
    start, has_scheme = opening.end(), bool(opening[2])
    end = ends.find(_CREDENTIAL, start)
    if has_scheme and end - start < SHORTEST:
        start, has_scheme = opening.end(1), False
        end = ends.find(_CREDENTIAL, start)
    word = text[start : min(end, start + JUDGED)]
    if len(word) < SHORTEST or _is_placeholder(word) or _is_prose(word):
        return None
    if not has_scheme and not _LETTER_AND_DIGIT.match(word):
        return None
    return opening.end(1), end


def _is_prose(word: str) -> bool:
    return len(word) < LONGEST_IN_PROSE and _WORD.fullmatch(word) is not None


def _users(text: str) -> Iterator[Span]:
    for hit in _USER.finditer(text):
        group = 2 if hit[2] else 1
        if _is_login(hit[3 - group], hit[group]):
            yield hit.span(group)
