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
from typing import NamedTuple

from buddy.scrub.key_names import ENDING, SUFFIX, Kind, kind_of
from buddy.scrub.lazy import LazyPattern
from buddy.scrub.marks import Span
from buddy.scrub.secret_values import LONGEST_IN_PROSE, Form, is_code, is_credential, is_login, is_secret

LONGEST = 200
SHORTEST = 6
SHORTEST_SETTING = 4
JUDGED = 256

_SIGN = r"(?:=>|:=|={1,3}|:|>)"
_CLOSED = r"[\"'\\\]]{0,4}"
_NAMED = LazyPattern(rf"(?:{ENDING}){SUFFIX}(?:{_CLOSED}[ \t]{{0,8}}{_SIGN}|(?=[ \t]))[ \t]{{0,8}}")
_NAME_CHARACTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-"
_LONGEST_NAME = 60

_QUOTED = LazyPattern(
    rf"\"((?:[^\"\\\n]|\\[^\n]){{1,{LONGEST}}}+)\"|'((?:[^'\\\n]|\\[^\n]){{1,{LONGEST}}}+)'"
    rf"|\\[\"']([^\"'\\\n]{{1,{LONGEST}}}+)\\[\"']"
)
_BARE = LazyPattern(r"[A-Za-z0-9_+/=~!@%^*#-]*+")
_CONTINUED = LazyPattern(r"[\w.(\[{$:\\]")  # after a bare value: it is code
_WHOLE = LazyPattern(r"[^\s\"'\\`;,\[\]<>]*+")  # NAME=value, as in an environment, or `name: value` as a line
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
    rf"(?:{ENDING}){SUFFIX}{_CLOSED}[ \t]{{0,8}}(?:{_SIGN}[ \t]{{0,8}})?"
    rf"(?:{_UNCLOSED}|\\?[\"']?[A-Za-z-]{{3,9}}[ \t]{{1,2}})?\Z"
    r"|(?:-u|--user)[ \t=]{0,2}\Z"
)
_OPEN_WITHIN = 64
_OPEN_QUOTE_WITHIN = 500


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


def spans(text: str) -> Iterator[Span | None]:
    """The values, and None for each name without one: looking for it takes time, too."""
    ends = RunEnds(text)
    for named in _NAMED.finditer(text):
        yield _value(text, named, ends)
    if "://" in text:
        yield from (hit.span(2) for hit in _USERINFO.finditer(text) if is_login(hit[1], hit[2]))
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
        return is_header or not _COMPLETE.fullmatch(rest)
    if _is_flag(name) or _may_be_flag(name):
        return not _COMPLETE.fullmatch(rest)
    return _UNSIGNED.fullmatch(rest) is not None and (not following or following in "=:>\"'\\] \t")


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
    end = _NAME_END.match(named[0])
    size = end.end() if end else 0
    name, gap = text[begin : named.start() + size], named[0][size:]
    sign = gap.strip(" \t\"'\\]")
    if name.lower().endswith("authorization") and sign:
        return _credential(text, named.end(), ends)
    kind = kind_of(name.lstrip("-"))
    if kind is None or not (sign or _is_flag(name)):
        return None
    return _literal(text, named.end(), Named(name, gap, sign, kind), ends)


_NAME_END = LazyPattern(rf"[A-Za-z]+{SUFFIX}")
_UNSIGNED = LazyPattern(rf"{_CLOSED}[ \t]{{0,8}}")
_SIGNED = LazyPattern(rf"{_CLOSED}[ \t]{{0,8}}{_SIGN}")
_COMPLETE = LazyPattern(rf"{_CLOSED}[ \t]{{0,8}}(?:{_SIGN}[ \t]{{0,8}})?[A-Za-z-]{{3,9}}[ \t]{{1,2}}")  # with its value


def _is_flag(name: str) -> bool:
    return name.startswith("-") or name.lower() == "bearer"


def _may_be_flag(name: str) -> bool:
    """Whether it becomes a flag once a random word at its start is hidden."""
    return len(name) > LONGEST_IN_PROSE and ("-" in name or name.lower().endswith("bearer"))


class Named(NamedTuple):
    """A telling name, and what stands between it and its value."""

    name: str
    gap: str
    sign: str
    kind: Kind


def _literal(text: str, at: int, named: Named, ends: RunEnds) -> Span | None:
    quoted = _QUOTED.match(text, at)
    if quoted:
        found = quoted.lastindex or 0
        form: Form = "compared" if named.sign in _COMPARISONS else "quoted"
        return quoted.span(found) if is_secret(named.kind, quoted[found], form=form) else None
    start = at - len(named.gap) - len(named.name)
    if named.gap == "=" and start > 0 and text[start - 1] in "?&":
        return _judge(text, (at, ends.find(_QUERY, at)), named, "bare")
    return _unquoted(text, at, named, ends) or _word(text, at, named, ends)


def _word(text: str, at: int, named: Named, ends: RunEnds) -> Span | None:
    """A value without quotes, somewhere in a line."""
    end = ends.find(_BARE, at)
    return None if _CONTINUED.match(text, end) else _judge(text, (at, end), named, "bare")


def _unquoted(text: str, at: int, named: Named, ends: RunEnds) -> Span | None:
    """A complete value in a format that needs no quotes: `NAME=value`, `name=value`, `name: value`, `name = value`."""
    form = _form(named)
    if form is None:
        return None
    end = ends.find(_WHOLE, at)
    following = text[end : end + 1]
    if is_code(text[at : min(end, at + JUDGED)], following):
        return None
    if form == "setting":
        return _judge(text, (at, _without_closing(text, at, end)), named, form)
    is_markup = named.gap == ">" and text.startswith("</", end)
    is_end = following in ("", "\n", "\r") or (named.gap == "=" and following in _AFTER_SETTING)
    return _judge(text, (at, end), named, form) if is_end or is_markup else None


def _form(named: Named) -> Form | None:
    if named.gap == "=" and named.name.isupper():
        return "setting"
    if named.gap in ("=", ">", ":"):
        return "line"
    is_data = named.sign == ":" or (named.sign == "=" and "." not in named.name)
    return "line" if is_data and named.gap[-1:] in (" ", "\t") else None


def _without_closing(text: str, at: int, end: int) -> int:
    """Without the brackets that close what the setting is in."""
    for last in range(end, max(at, end - 4), -1):
        if text[last - 1] not in ")}" or text.find(_OPENED[text[last - 1]], at, min(last, at + JUDGED)) >= 0:
            return last
    return end


def _judge(text: str, span: Span, named: Named, form: Form) -> Span | None:
    start, end = span
    value = text[start : min(end, start + JUDGED)]
    shortest = SHORTEST_SETTING if form == "setting" and not value.isalpha() else SHORTEST
    return span if end - start >= shortest and is_secret(named.kind, value, form=form) else None


_COMPARISONS = ("==", "===", ">")
_AFTER_SETTING = (" ", "\t", '"', "'", ";")
_OPENED = {")": "(", "}": "{"}


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
    if len(word) < SHORTEST or not is_credential(word, has_scheme=has_scheme):
        return None
    return opening.end(1), end


def _users(text: str) -> Iterator[Span]:
    for hit in _USER.finditer(text):
        group = 2 if hit[2] else 1
        if is_login(hit[3 - group], hit[group]):
            yield hit.span(group)
