"""The text and the thoughts of a reply whose server sends them in several items.

Invariants: the deltas of all batches joined are the reply's text; a blank line separates the texts of different items
(unless another `separator` is given), and the thoughts of different sources.
"""

from typing import TYPE_CHECKING

from buddy.models.contract import Piece, TextDelta, ThinkingDelta

if TYPE_CHECKING:
    from buddy.models.limits import Size
    from buddy.models.outputs import Item

_BREAK = "\n\n"


class Speech:
    """What was said so far; `is_woven` if the texts of items alternate, so that no item's text is one part of it."""

    def __init__(self, size: "Size", separator: str = _BREAK) -> None:
        self._separator = separator
        self.text: list[str] = []
        self.is_woven = False
        self._size = size
        self._length = 0
        self._given = 0
        self._thoughts: list[str] = []
        self._speaking: Item | None = None
        self._thinking: object = None

    def say(self, item: "Item", text: str) -> None:
        if not text:
            return
        if item is not self._speaking:
            self.is_woven = self.is_woven or bool(item.text)
            if self.text and self._separator:
                self.text.append(self._separator)
                self._length += len(self._separator)
            item.start = self._length
            self._speaking = item
        self._size.add_text(text)
        item.text.append(text)
        self.text.append(text)
        self._length += len(text)
        item.end = self._length

    def think(self, source: object, thought: str) -> None:
        if self._thinking is not None and self._thinking != source:
            self._thoughts.append(_BREAK)
        self._thinking = source
        self._size.add_text(thought)
        self._thoughts.append(thought)

    def pieces(self) -> list[Piece]:
        """What came since the last call: at most one thinking delta and one text delta."""
        pieces: list[Piece] = []
        if self._thoughts:
            pieces.append(ThinkingDelta("".join(self._thoughts)))
            self._thoughts = []
        if text := "".join(self.text[self._given :]):
            pieces.append(TextDelta(text))
        self._given = len(self.text)
        return pieces
