"""A unified diff as an editor shows it: the text before and the text after, hunk by hunk."""

import re

from buddy.editor.json_rpc import Json

CUT = "the diff is cut here"
_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")


def diff_content(path: str, diff: str) -> list[Json]:
    """One entry per hunk; a diff that is cut, or of a binary file, is shown as text."""
    hunks = [] if CUT in diff else _hunks(diff)
    if not hunks:
        return [text_content(fenced(diff.rstrip(), "diff"))] if diff else []
    is_new = diff.startswith("--- /dev/null")
    return [{"type": "diff", "path": path, "oldText": None if is_new else old, "newText": new} for old, new in hunks]


def first_line(diff: str) -> int | None:
    """The line of the new file at which the first change is shown."""
    found = _HUNK.search(diff)
    return max(1, int(found[2])) if found else None


def text_content(text: str) -> Json:
    return {"type": "content", "content": {"type": "text", "text": text}}


def fenced(text: str, language: str = "") -> str:
    """A code block that nothing in the text can end."""
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}{language}\n{text}\n{fence}"


def _hunks(diff: str) -> list[tuple[str, str]]:
    hunks: list[tuple[list[str], list[str]]] = []
    before = ""
    for line in diff.split("\n")[:-1]:
        if _HUNK.match(line):
            hunks.append(([], []))
        elif hunks and line.startswith("\\"):
            _drop_newline(hunks[-1], before)
        elif hunks:
            for side in _sides(hunks[-1], line[:1]):
                side.append(line[1:] + "\n")
        before = line[:1]
    return [("".join(old), "".join(new)) for old, new in hunks]


def _sides(hunk: tuple[list[str], list[str]], sign: str) -> tuple[list[str], ...]:
    old, new = hunk
    return {"-": (old,), "+": (new,)}.get(sign, hunk)


def _drop_newline(hunk: tuple[list[str], list[str]], sign: str) -> None:
    """The line before is the last one of its file, and does not end with a newline."""
    for side in _sides(hunk, sign):
        if side:
            side[-1] = side[-1].removesuffix("\n")
