"""A list to choose from, right above the input: arrows and Enter, or a number; Esc cancels.

Invariants: it shows no more lines than fit, and its texts are escaped.
"""

from collections.abc import Callable, Sequence

from buddy.terminal.escape import one_line
from buddy.terminal.style import Style
from buddy.terminal.wrap import cut

VISIBLE = 8


class Picker:
    def __init__(
        self, title: str, choices: Sequence[str], style: Style, on_choice: Callable[[int], None], start: int = 0
    ) -> None:
        self._title = title
        self._choices = [one_line(choice, 300) for choice in choices]
        self._style = style
        self._on_choice = on_choice
        self._selected = start
        self.is_closed = False

    def lines(self, columns: int) -> list[str]:
        first = min(max(0, self._selected - VISIBLE + 1), max(0, len(self._choices) - VISIBLE))
        lines = [self._style.dim(cut(f"{self._title} (↑↓, Enter to select, Esc to cancel)", columns - 1))]
        for index, choice in list(enumerate(self._choices))[first : first + VISIBLE]:
            text = cut(f"{index + 1}  {choice}", columns - 3)
            lines.append(self._style.bold(f"▸ {text}") if index == self._selected else f"  {text}")
        return lines

    def press(self, key: str) -> None:
        match key:
            case "up" | "k":
                self._selected = (self._selected - 1) % len(self._choices)
            case "down" | "j":
                self._selected = (self._selected + 1) % len(self._choices)
            case "enter":
                self._choose(self._selected)
            case "escape" | "q":
                self.is_closed = True
            case _ if key.isdecimal() and 1 <= int(key) <= len(self._choices):
                self._choose(int(key) - 1)
            case _:
                pass

    def _choose(self, index: int) -> None:
        self.is_closed = True
        self._on_choice(index)


class Confirmation(Picker):
    """Yes or no; anything that closes it without a yes is a no."""

    def __init__(self, question: str, style: Style, on_answer: Callable[[bool], None]) -> None:
        super().__init__(question, ("Yes", "No"), style, lambda index: on_answer(index == 0))

    def press(self, key: str) -> None:
        super().press({"y": "1", "n": "2"}.get(key.lower(), key))
