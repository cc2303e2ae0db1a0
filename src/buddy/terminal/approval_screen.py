"""What an approval shows: a pure function from a request and the size of a screen to framed lines, in pages.

Every front end that asks draws these lines and nothing else of what is asked.

Invariants: every line has a frame mark and is no wider than the screen, however its characters are drawn; what was
asked can imitate neither a frame nor a fold nor another line; runs of blanks are folded with a count; every page shows
the first characters of what would run, and the last page its end; a screen too small for that has no pages.
"""

import json
import unicodedata
from collections.abc import Iterator, Mapping
from itertools import groupby
from re import compile as pattern
from typing import Any, Literal, NamedTuple, Protocol

from buddy.characters import spell
from buddy.terminal.escape import escape_all

HEAD_CHARACTERS = 40
FOLDED_LINES = 3
FOLDED_BLANKS = pattern(" {32,}")
SCRIPT_HEAD, SCRIPT_TAIL = 12, 4
NARROWEST = 30
# With less, a page has neither the number of lines above and below it nor the last line.
ROOM_FOR_FOLDS = 9

FRAME = "│ "
WRAPPED = "↪ "
_DIFF_SIGNS = ("+", "-", " ", "@@ ", "\\ ")
_MARKS = {"title": "┌ ", "end": "└"}

# Digests and sizes bind the decision; people read the command or the diff instead.
_HIDDEN = frozenset(
    {"command", "diff", "why", "alwaysRule", "scripts", "scriptTexts", "scriptsComplete", "sha256", "replaces", "bytes"}
)
_LABELS = {"uncovered": "undo"}
_PLACES = {("target", "local"): "on this machine", ("sandbox", "host"): "no sandbox"}

Kind = Literal["title", "command", "diff", "fact", "fold", "end"]


class Request(Protocol):
    """The part of an approval request that is shown."""

    @property
    def title(self) -> str: ...

    @property
    def summary(self) -> str: ...

    @property
    def details(self) -> Mapping[str, Any]: ...

    @property
    def agent(self) -> str | None: ...


class Asked(NamedTuple):
    title: str
    summary: str
    details: Mapping[str, Any]
    agent: str | None = None


class Line(NamedTuple):
    text: str
    kind: Kind

    @property
    def mark(self) -> str:
        return _MARKS.get(self.kind, FRAME)

    @property
    def framed(self) -> str:
        return self.mark + self.text


class ApprovalText(NamedTuple):
    """All lines, from the title to the end; the first `head` after the title show how what would run begins."""

    lines: tuple[Line, ...]
    head: int
    columns: int


Page = tuple[Line, ...]


def approval_text(request: Request, columns: int, *, prompt: str = "$ ", rule: str = "") -> ApprovalText:
    """The lines for a screen that is `columns` wide. `prompt` stands before a command, `rule` is what "always" adds."""
    width = max(NARROWEST, columns) - 4
    kind, text = _action(request)
    is_command = kind == "command" and "command" in request.details
    first = escape_all(prompt)[: width // 2] if is_command else ""
    action = list(_rows(text, width, kind, first))
    # One more: a run of blanks that is folded in the entire text may not be in its beginning.
    head = len(list(_rows(text[:HEAD_CHARACTERS], width, kind, first))) + 1
    title, is_cut = _cut(_title(request), width)
    facts = list(_facts(request.details, as_words=prompt == "$ "))
    facts = [("title", _title(request)), *facts] if is_cut else facts
    if rule:
        facts.append(('"Always" adds this rule', rule))
        if request.details.get("scriptsComplete") is False:
            facts.append(("note", "the rule would also cover those scripts, as they are then"))
    body = [*action, *(line for name, value in facts for line in _wrap(f"{name}: {value}", width, "fact"))]
    body += _scripts(request.details, width)
    return ApprovalText((Line(title, "title"), *body, Line("", "end")), min(head, len(action)), columns)


def pages_of(text: ApprovalText, rows: int) -> tuple[Page, ...]:
    """What to show one after the other on `rows` rows; empty if even the beginning does not fit."""
    title, *body, end = text.lines
    if text.columns < NARROWEST:
        return ()
    if len(text.lines) <= rows:
        return (text.lines,)
    head, rest = body[: text.head], body[text.head :]
    room = rows - len(head) - 2  # the title and the end
    has_folds = room >= ROOM_FOR_FOLDS
    room -= 3 if has_folds else 0
    if room < 1:
        return ()
    chunks = [rest[at : at + room] for at in range(0, len(rest), room)]
    names = [_cut(title.text, text.columns - 4, f" · page {at + 1} of {len(chunks)}") for at in range(len(chunks))]
    bodies = [_page(head, chunks, at) if has_folds else (*head, *chunk) for at, chunk in enumerate(chunks)]
    return tuple((Line(name, "title"), *body, end) for (name, _), body in zip(names, bodies, strict=True))


def _page(head: list[Line], chunks: list[list[Line]], at: int) -> Page:
    before, after = sum(map(len, chunks[:at])), sum(map(len, chunks[at + 1 :]))
    above = [_fold(before, "line", "above")] if before else []
    between = [_fold(after - 1, "more line", "")] if after > 1 else []
    return (*head, *above, *chunks[at], *between, *(chunks[-1][-1:] if after else []))


# --- what is asked ----------------------------------------------------------------------------------------------------


def _action(request: Request) -> tuple[Kind, str]:
    """The command or the diff itself; without either, the summary."""
    command, diff = request.details.get("command"), request.details.get("diff")
    if isinstance(command, str):
        return "command", command
    if isinstance(diff, str) and diff:
        return "diff", diff.removesuffix("\n")
    return "command", request.summary


def _title(request: Request) -> str:
    """What is asked, and for which sub-agent."""
    return _flat(f"sub-agent {request.agent}: {request.title}" if request.agent else request.title)


def _facts(details: Mapping[str, Any], *, as_words: bool) -> Iterator[tuple[str, str]]:
    words = {"cwd": "in", "target": "on", "sandbox": "sandbox"}
    place = [
        _PLACES.get((key, str(value))) or f"{word} {_flat(str(value))}"
        for key, word in words.items()
        if (value := details.get(key))
    ]
    if place and as_words:
        yield "where", " · ".join(place)
    if why := details.get("why"):
        yield "why", _flat(str(why))
    for key, value in details.items():
        is_place = as_words and key in words
        if key not in _HIDDEN and not is_place and value not in ("", None, {}, [], False) and value is not True:
            yield _LABELS.get(key) or _flat(key), _flat(_spell(value))
    scripts = details.get("scripts")
    if isinstance(scripts, Mapping) and scripts:
        yield "runs", _flat(", ".join(str(path) for path in scripts))  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType] - JSON
    if details.get("scriptsComplete") is False:
        yield "note", "it may run scripts that could not be read"


def _scripts(details: Mapping[str, Any], width: int) -> list[Line]:
    """The beginning and the end of the scripts that the command runs."""
    lines: list[Line] = []
    texts: dict[str, str] = details.get("scriptTexts") or {}
    for path, text in texts.items():
        rows = [line if line.kind == "fold" else Line(line.text, "fact") for line in _script_rows(text, width)]
        hidden = len(rows) - SCRIPT_HEAD - SCRIPT_TAIL
        if hidden > 1:
            rows = [*rows[:SCRIPT_HEAD], _fold(hidden, "more line", ""), *rows[-SCRIPT_TAIL:]]
        lines += [*_wrap(f"{_flat(str(path))}:", width, "fact"), *rows]
    return lines


def _script_rows(text: str, width: int) -> Iterator[Line]:
    return _rows(str(text).rstrip("\n"), width, "command", "  ")


# --- rows -------------------------------------------------------------------------------------------------------------


def _rows(text: str, width: int, kind: Kind, first: str) -> Iterator[Line]:
    """A text line by line; only the first begins with `first`, and only signs of a diff are at the frame."""
    lines = [_drawn(line) for line in text.split("\n")]
    at = 0
    for is_blank, group in groupby(lines, key=lambda line: not line.strip()):
        run = list(group)
        if is_blank and len(run) >= FOLDED_LINES:
            yield _fold(len(run), "blank line", "")
        else:
            for offset, line in enumerate(run):
                yield from _fold_blanks(line, width, kind, _beginning(kind, first, at + offset, line))
        at += len(run)


def _beginning(kind: Kind, first: str, number: int, line: str) -> str:
    if kind == "diff":
        return "" if line.startswith(_DIFF_SIGNS) else "  "
    return first if number == 0 and first else "  "


def _fold_blanks(line: str, width: int, kind: Kind, beginning: str) -> Iterator[Line]:
    at, before = 0, beginning
    for run in FOLDED_BLANKS.finditer(line):
        if run.start() > at or before != WRAPPED:
            yield from _wrap(line[at : run.start()], width, kind, before)
        yield _fold(len(run[0]), "space", "")
        at, before = run.end(), WRAPPED
    if at < len(line) or not at:
        yield from _wrap(line[at:], width, kind, before)


def _wrap(text: str, width: int, kind: Kind, beginning: str = "") -> Iterator[Line]:
    """None is wider than `width`; all but the first begin with a mark of their own. Facts break between words."""
    row, used = beginning, columns_of(beginning)
    for character in text:
        size = columns_of(character)
        if used + size > width:
            kept, moved = _break(row) if kind == "fact" else (row, "")
            yield Line(kept, kind)
            row, used = WRAPPED + moved, columns_of(WRAPPED + moved)
        row, used = row + character, used + size
    yield Line(row, kind)


def _break(row: str) -> tuple[str, str]:
    """At the last space, if what moves to the next row is short."""
    kept, space, moved = row.rpartition(" ")
    return (kept, moved) if space and kept.strip(WRAPPED) and columns_of(moved) * 2 < columns_of(row) else (row, "")


def _fold(count: int, what: str, where: str) -> Line:
    return Line(f"… {count} {what}{'' if count == 1 else 's'}{f' {where}' if where else ''}", "fold")


def _cut(text: str, width: int, more: str = "") -> tuple[str, bool]:
    """On one row with `more` after it, and whether something of it is missing."""
    if columns_of(text + more) <= width:
        return text + more, False
    room = max(0, width - columns_of(f"…{more}"))
    first = next(_wrap(text, room, "title")).text
    return f"{first}…{more}" if columns_of(f"…{more}") <= width else "…", True


# --- characters -------------------------------------------------------------------------------------------------------


def columns_of(text: str) -> int:
    """At most how many columns a terminal uses for it: characters of ambiguous width count as wide."""
    return len(text) if text.isascii() else sum(map(_width, text))


def _width(character: str) -> int:
    if character.isascii():
        return 1
    category = unicodedata.category(character)
    if category in ("Mn", "Me"):
        return 0
    return 2 if category == "So" or unicodedata.east_asian_width(character) in "WFA" else 1


def _drawn(line: str) -> str:
    """One line as it will be drawn: escaped, and tabs as blanks."""
    return _spell_unclear(escape_all(line)).expandtabs(4)


def _flat(text: str) -> str:
    """For what belongs on one line: its line ends are spelled out, too."""
    return _spell_unclear(escape_all(text).replace("\n", "\\n").replace("\t", "\\t"))


def _spell_unclear(text: str) -> str:
    """Unassigned characters, whose width nobody knows, and marks that overprint are spelled out.

    A combining mark stays where writing needs it: after a letter it does not melt with, at most two in a row.
    """
    if text.isascii():
        return text
    spelled: list[str] = []
    base, marks = "", 0
    for character in text:
        category = "L" if character.isascii() else unicodedata.category(character)
        if category not in ("Mn", "Me"):
            base, marks = character, 0
            spelled.append(spell(character) if category == "Cn" else character)
            continue
        marks += 1
        is_needed = category == "Mn" and marks <= 2 and base.isalpha()
        melts = len(unicodedata.normalize("NFC", base + character)) == 1
        spelled.append(character if is_needed and not melts else spell(character))
    return "".join(spelled)


def _spell(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
