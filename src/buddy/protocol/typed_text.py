"""The text that keys type into a terminal's input line, as a shell would read it.

Invariants: what is submitted, and what is left in the line, is all of it judged; a key whose effect on the line is not
known (history, completion, yanking) makes the line unknown until it is discarded with C-c. Keys are the names that
tmux knows; tmux types any other word as it is.
"""

import re

from msgspec import Struct

MAX_LINE = 8192
"""Characters that are remembered of an unfinished command; a longer one is not known."""

_TYPED = {"space": " ", "enter": "\r", "kpenter": "\r", "tab": "\t", "bspace": "\x7f", "escape": "\x1b"}
_MOVES = {"left": "\x02", "right": "\x06", "home": "\x01", "end": "\x05", "dc": "\x04", "delete": "\x04"}
_NAVIGATION = frozenset(("up", "down", "ic", "insert", "btab", "npage", "pagedown", "pgdn", "ppage", "pageup", "pgup"))
_OTHER = _NAVIGATION | {"none", "any", "focusin", "focusout", "pastestart", "pasteend"}
_KEYPAD = re.compile(r"kp([0-9/*+.-])", re.IGNORECASE)
_HEX = re.compile(r"0x([0-9a-f]{1,6})", re.IGNORECASE)
_CONTROL = re.compile(r"(?:C-|\^)(.)", re.IGNORECASE)
_FUNCTION = re.compile(r"f\d{1,2}|user\d{1,3}|mouse\w+|wheel\w+", re.IGNORECASE)
_F_KEY = re.compile(r"f([1-9]|1[0-2])", re.IGNORECASE)
_MODIFIED = re.compile(r"((?:[CMS]-)+)(.+)", re.IGNORECASE)
# Without quotes, escapes and keywords, a line ends where it is submitted.
_WHOLE = re.compile(r"[\w ./:=,@%+~-]*\n")
_KEYWORDS = frozenset(
    ("if", "then", "else", "elif", "for", "while", "until", "case", "select", "function", "do", "coproc")
)
_HARMLESS = "\x0c\x1a"  # redraws, or suspends a program: the line stays as it is


class InputLine(Struct, frozen=True):
    """What has been typed and not yet run; `is_known` is false if the line may contain something else."""

    text: str = ""
    cursor: int = 0
    is_known: bool = True


class Typed(Struct, frozen=True):
    """What keys would have run or left in the line, to be judged as a command, and the line after them."""

    text: str
    after: InputLine
    submits: bool


def after_command(before: InputLine) -> InputLine:
    """The line of a shell after a command was run in it, which discards what was typed, but for unfinished lines."""
    return before if before.is_known and "\n" in before.text else InputLine()


def press(before: InputLine, text: str, keys: tuple[str, ...]) -> Typed:
    """Type `text` as it is, then press `keys`."""
    line = _Line(before)
    for character in text:
        line.take(character)
    for key in keys:
        line.press(key)
    # A shell removes escaped ends of lines before it reads words.
    judged = "".join((*line.submitted, *line.characters)).replace("\\\n", "")
    return Typed(judged, line.state(), line.submits)


def is_key_name(key: str) -> bool:
    """Whether tmux presses a key for this name, or types this one character; any other word it types as it is."""
    name = _MODIFIED.sub(r"\2", key) if key.isascii() else key
    if len(name) == 1 or name.lower() in (*_TYPED, *_MOVES, *_NAVIGATION):
        return True
    if _F_KEY.fullmatch(name) or _KEYPAD.fullmatch(name):
        return True
    return bool(key.isascii() and _CONTROL.fullmatch(key)) or bool(_HEX.fullmatch(key))


def _is_key(name: str) -> bool:
    """Whether this is the name of a key, rather than a word that is typed."""
    known = name.lower() in (*_TYPED, *_MOVES, *_OTHER)
    return len(name) == 1 or known or bool(_FUNCTION.fullmatch(name) or _KEYPAD.fullmatch(name))


class _Line:
    def __init__(self, before: InputLine) -> None:
        self.characters = list(before.text)
        self.submitted: list[str] = []
        self.submits = False
        self._cursor = before.cursor
        self._start = before.text.rfind("\n") + 1  # an unfinished command may have earlier lines
        self._is_known = before.is_known

    def state(self) -> InputLine:
        if len(self.characters) > MAX_LINE:
            return InputLine(is_known=False)
        return InputLine("".join(self.characters), self._cursor, self._is_known)

    def press(self, key: str) -> None:
        for character in self._typed_by(key):
            self.take(character)

    def take(self, character: str) -> None:
        match character:
            case "\r" | "\n":
                self._submit()
            case "\x03":
                self.characters, self._cursor, self._start, self._is_known = [], 0, 0, True
            case "\x01" | "\x02" | "\x05" | "\x06":
                self._move(character)
            case "\x04" | "\x08" | "\x7f" | "\x0b" | "\x15":
                self._remove(character)
            case _ if character in _HARMLESS:
                pass
            case _ if character < " ":
                self._is_known = False
            case _:
                self.characters.insert(self._cursor, character)
                self._cursor += 1

    def _typed_by(self, key: str) -> str:
        name = key.lower()
        if len(key) == 1:
            return key
        if found := _TYPED.get(name) or _MOVES.get(name):
            return found
        if found := _KEYPAD.fullmatch(key):
            return found[1]
        if found := _HEX.fullmatch(key):
            return chr(min(int(found[1], 16), 0x10FFFF))
        if found := _CONTROL.fullmatch(key):
            return chr(ord(found[1].upper()) & 0x1F)
        if name in _OTHER or _FUNCTION.fullmatch(key):
            self._is_known = False
            return ""
        if (found := _MODIFIED.fullmatch(key)) and _is_key(found[2]):
            self._is_known = False
            return self._typed_by(found[2])
        return key

    def _submit(self) -> None:
        self.submits = True
        self.characters.append("\n")
        text = "".join(self.characters)
        if _WHOLE.fullmatch(text) and _KEYWORDS.isdisjoint(text.split()):
            self.submitted.append(text)
            self.characters = []
        self._cursor = self._start = len(self.characters)

    def _move(self, character: str) -> None:
        match character:
            case "\x01":
                self._cursor = self._start
            case "\x02":
                self._cursor = max(self._start, self._cursor - 1)
            case "\x05":
                self._cursor = len(self.characters)
            case _:
                self._cursor = min(len(self.characters), self._cursor + 1)

    def _remove(self, character: str) -> None:
        match character:
            case "\x0b":
                del self.characters[self._cursor :]
            case "\x15":
                del self.characters[self._start : self._cursor]
                self._cursor = self._start
            case "\x04":
                del self.characters[self._cursor : self._cursor + 1]
            case _ if self._cursor > self._start:
                self._cursor -= 1
                del self.characters[self._cursor]
            case _:
                pass
