"""Long pasted texts and images that were dropped, shown in the input as a label.

Invariants: what is sent, remembered or edited outside is the whole text; a label is removed as one; a label that was
edited is only text.
"""

from pathlib import PurePath

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.document import Document

from buddy.client.image_paths import find_dropped, quote_path
from buddy.terminal.phrases import plural

MOST_LINES = 10
MOST_CHARACTERS = 1000


class PastedTexts:
    def __init__(self, buffer: Buffer) -> None:
        self._buffer = buffer
        self._texts: dict[str, str] = {}

    def insert(self, text: str) -> None:
        """Put a pasted text into the input, or its label if it is long."""
        self._buffer.insert_text(self.shorten(text))

    def shorten(self, text: str) -> str:
        """What stands for a text in the input: its label if it is long, or the path of an image that was dropped."""
        if path := find_dropped(text):
            return self._keep(f"Image {PurePath(path).name}", quote_path(path))
        lines = text.rstrip("\n").count("\n") + 1
        if lines <= MOST_LINES and len(text) <= MOST_CHARACTERS:
            return text
        return self._keep(f"Pasted ~{plural(lines, 'line')}", text)

    def _keep(self, name: str, text: str) -> str:
        label = self._label(name)
        self._texts[label] = text
        return label

    def expand(self) -> None:
        """Replace the labels in the input by their texts."""
        document = self._buffer.document
        text = self._expanded(document.text)
        if text != document.text:
            self._buffer.document = Document(text, len(self._expanded(document.text_before_cursor)))
        self._texts.clear()

    @property
    def is_before_cursor(self) -> bool:
        return bool(self._before_cursor())

    def remove(self) -> None:
        """Remove the label before the cursor."""
        label = self._before_cursor()
        self._buffer.delete_before_cursor(len(label))

    def _before_cursor(self) -> str:
        before = self._buffer.document.text_before_cursor
        return next((label for label in self._texts if before.endswith(label)), "")

    def _label(self, name: str) -> str:
        """A label that no other text in the input has."""
        number = 2
        label = f"[{name}]"
        while label in self._buffer.text or label in self._texts:
            label, number = f"[{name} #{number}]", number + 1
        return label

    def _expanded(self, text: str) -> str:
        """In one pass: a pasted text may contain what looks like a label."""
        done = ""
        while found := min(((text.find(label), label) for label in self._texts if label in text), default=None):
            at, label = found
            done, text = done + text[:at] + self._texts[label], text[at + len(label) :]
        return done + text
