"""A list to choose from, right above the input: arrows and Enter, or a number; Esc cancels.

A list that can be searched is narrowed down by what is typed. Invariants: it shows no more lines than fit, and its
texts are escaped.
"""

from collections.abc import Callable, Sequence

from buddy.terminal.escape import escape, one_line
from buddy.terminal.style import Style
from buddy.terminal.wrap import cut

VISIBLE = 8


class Picker:
    def __init__(
        self,
        title: str,
        choices: Sequence[str],
        style: Style,
        on_choice: Callable[[int], None],
        start: int = 0,
        found_by: Sequence[str] | None = None,
    ) -> None:
        """`found_by` has a text for each choice, in which the words that are typed are looked for."""
        self._title = title
        self._choices = [one_line(choice, 300) for choice in choices]
        self._style = style
        self._on_choice = on_choice
        self._found_by = [text.casefold() for text in found_by] if found_by is not None else None
        self._typed = ""
        self._matching = list(range(len(choices)))
        self._selected = start
        self.is_closed = False

    def lines(self, columns: int) -> list[str]:
        first = min(max(0, self._selected - VISIBLE + 1), max(0, len(self._matching) - VISIBLE))
        lines = [self._style.dim(cut(self._heading(), columns - 1))]
        for place, index in list(enumerate(self._matching))[first : first + VISIBLE]:
            text = cut(f"{index + 1}  {self._choices[index]}", columns - 3)
            lines.append(self._style.bold(f"▸ {text}") if place == self._selected else f"  {text}")
        if not self._matching:
            lines.append(self._style.dim("  nothing matches; Backspace widens the search"))
        return lines

    def _heading(self) -> str:
        if self._found_by is None:
            return f"{self._title} (↑↓, Enter to select, Esc to cancel)"
        if not self._typed:
            return f"{self._title} (type to search, ↑↓, Enter to select, Esc to cancel)"
        return f"{self._title}: {self._typed} ({len(self._matching)} of {len(self._choices)}) · Esc shows all"

    def press(self, key: str) -> None:
        match key:
            case "up" | "down":
                self._move(-1 if key == "up" else 1)
            case "enter":
                if self._matching:
                    self._choose(self._matching[self._selected])
            case "escape" if not self._typed:
                self.is_closed = True
            case "escape":
                self._search("")
            case _ if not self._typed and key.isdecimal() and 1 <= int(key) <= len(self._choices):
                self._choose(int(key) - 1)
            case _ if self._found_by is not None:
                self._type(key)
            case "k" | "j":
                self._move(-1 if key == "k" else 1)
            case "q":
                self.is_closed = True
            case _:
                pass

    def _move(self, by: int) -> None:
        if self._matching:
            self._selected = (self._selected + by) % len(self._matching)

    def _type(self, key: str) -> None:
        if key == "backspace":
            self._search(self._typed[:-1])
        elif len(key) == 1 and escape(key) == key and key.isprintable():
            self._search(self._typed + key)

    def _search(self, typed: str) -> None:
        self._typed = typed
        words, texts = typed.casefold().split(), self._found_by or []
        self._matching = [index for index, text in enumerate(texts) if all(word in text for word in words)]
        self._selected = 0

    def _choose(self, index: int) -> None:
        self.is_closed = True
        self._on_choice(index)


class Confirmation(Picker):
    """Yes or no; anything that closes it without a yes is a no."""

    def __init__(self, question: str, style: Style, on_answer: Callable[[bool], None]) -> None:
        super().__init__(question, ("Yes", "No"), style, lambda index: on_answer(index == 0))

    def press(self, key: str) -> None:
        super().press({"y": "1", "n": "2"}.get(key.lower(), key))
