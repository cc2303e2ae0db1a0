"""A choice among a few lines, right above the input: arrows and Enter, or a number; Esc leaves it.

What always holds: it shows no more lines than fit, and its texts are escaped.
"""

from collections.abc import Callable, Sequence

from buddy.terminal.escape import one_line
from buddy.terminal.style import Style
from buddy.terminal.wrap import cut

MOST = 8


class Picker:
    locks = True

    def __init__(
        self, title: str, choices: Sequence[str], style: Style, chosen: Callable[[int], None], start: int = 0
    ) -> None:
        self._title = title
        self._choices = [one_line(choice, 300) for choice in choices]
        self._style = style
        self._chosen = chosen
        self._at = start
        self.is_over = False

    def lines(self, columns: int) -> list[str]:
        first = min(max(0, self._at - MOST + 1), max(0, len(self._choices) - MOST))
        lines = [self._style.dim(cut(f"{self._title} (arrows, Enter; Esc leaves)", columns - 1))]
        for index, choice in list(enumerate(self._choices))[first : first + MOST]:
            text = cut(f"{index + 1}  {choice}", columns - 3)
            lines.append(self._style.bold(f"▸ {text}") if index == self._at else f"  {text}")
        return lines

    def press(self, key: str) -> None:
        match key:
            case "up" | "k":
                self._at = (self._at - 1) % len(self._choices)
            case "down" | "j":
                self._at = (self._at + 1) % len(self._choices)
            case "enter":
                self._choose(self._at)
            case "escape" | "q":
                self.is_over = True
            case _ if key.isdecimal() and 1 <= int(key) <= len(self._choices):
                self._choose(int(key) - 1)
            case _:
                pass

    def _choose(self, index: int) -> None:
        self.is_over = True
        self._chosen(index)
