"""How many tokens each part of a prompt takes, for one model.

Invariants: an item is counted once, however often it is sent, so a turn pays only for what is new in it. While there is
plenty of room the count is rough and needs no vocabulary (loading one takes a quarter of a second); it becomes exact
before anything depends on it.
"""

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from buddy.models.contract import AssistantItem, Item, in_words
from buddy.models.encoded import is_long
from buddy.models.tokens import Counter, count, count_steps
from buddy.protocol.shapes import ContextState
from buddy.steps import Steps, parts

BUFFER = 1024
FRAME = 4
# The pixels of an image that are about one token, and the most tokens that an image takes.
PIXELS, IMAGE = 750, 1600
_BYTES = 3  # per token, roughly; text and code have more, so that a rough count errs on the safe side


class Sizes(Struct, frozen=True):
    """The parts of one prompt in tokens; `buffer` is kept free for the reply."""

    system: int
    summary: int
    memory: int
    tools: int
    history: int
    limit: int
    buffer: int = BUFFER
    is_limit_assumed: bool = False

    @property
    def prompt(self) -> int:
        return self.system + self.summary + self.memory + self.tools + self.history

    @property
    def fixed(self) -> int:
        """What no compaction can shorten."""
        return self.system + self.memory + self.tools + self.buffer

    @property
    def share(self) -> float:
        return (self.prompt + self.buffer) / self.limit

    def context(self, used: int) -> ContextState:
        return ContextState(
            used,
            self.limit,
            self.system,
            self.summary,
            self.memory,
            self.tools,
            self.history,
            self.buffer,
            self.is_limit_assumed,
        )


class Tally:
    """Counts for one model."""

    def __init__(self, model: str) -> None:
        self.model = model
        self._counter = Counter(model)
        self.is_exact = False
        self._known: dict[int, tuple[Item, int]] = {}
        self._fixed: dict[str, int] = {}
        self._items: Sequence[Item] = ()
        self._counted = 0
        self._total = 0

    def sharpen(self) -> None:
        """Count exactly from now on. Not in a thread: a vocabulary is loaded once per process, and a turn must depend
        on its log alone, even if time is simulated."""
        if not self.is_exact:
            self.is_exact = True
            self._known, self._fixed = {}, {}
            self._items, self._counted, self._total = (), 0, 0

    def learn(self, estimated: int, reported: int) -> None:
        """Calibrate with the count of the server; a rough count teaches nothing."""
        if self.is_exact:
            self._counter.calibrate(estimated, reported)

    def text(self, text: str) -> int:
        return self._counter.scale(self._raw(text))

    def item(self, item: Item) -> int:
        return self._counter.scale(self._item(item))

    def item_steps(self, item: Item) -> Steps[int]:
        """The same in steps."""
        yield from self.count_ahead((item,))
        return self.item(item)

    def count_ahead(self, items: Sequence[Item]) -> Steps[None]:
        """Count the long items that are new, in steps."""
        for item in items:
            if is_long(item) and id(item) not in self._known:
                self._known[id(item)] = item, (yield from self._count_steps(item))

    def items(self, items: Sequence[Item]) -> Steps[int]:
        """A complete history; if it is the same object as last time, only what was added is counted."""
        if items is not self._items or len(items) < self._counted:
            self._items, self._counted, self._total = items, 0, 0
        end, total = len(items), self._total
        for item in items[self._counted : end]:
            if is_long(item):
                yield from self.count_ahead((item,))
                total += self._item(item)
            else:
                # A rough count is cheaper than keeping it.
                total += self._item(item) if self.is_exact else _rough_count(item)
        self._counted, self._total = end, total
        return self._counter.scale(total)

    def fixed(self, text: str) -> int:
        """A text that is sent with every call."""
        found = self._fixed.get(text)
        if found is None:
            found = self._fixed[text] = self._raw(text)
        return self._counter.scale(found)

    def _item(self, item: Item) -> int:
        # The item is kept alive, so its id cannot be reused by another object.
        known = self._known.get(id(item))
        if known is None:
            known = self._known[id(item)] = item, self._count(item)
        return known[1]

    def _count(self, item: Item) -> int:
        if not self.is_exact:
            return _rough_count(item)
        return sum([count(text, self.model) for text in _texts(item)], start=_extra(item))

    def _count_steps(self, item: Item) -> Steps[int]:
        size = _extra(item)
        for text in _texts(item):
            size += (yield from count_steps(text, self.model)) if self.is_exact else (yield from _rough_steps(text))
        return size

    def _raw(self, text: str) -> int:
        return count(text, self.model) if self.is_exact else -(-_bytes_of(text) // _BYTES)


def _texts(item: Item) -> list[str]:
    if not isinstance(item, AssistantItem):
        return [in_words(item) if item.images else item.text]
    texts = [item.text]
    for call in item.calls:
        texts += (call.name, call.arguments)
    return texts


def _extra(item: Item) -> int:
    """What an item takes besides its texts."""
    if isinstance(item, AssistantItem):
        size = FRAME * (1 + len(item.calls))
        return size + len(msgspec.json.encode(item.opaque)) // 4 if item.opaque else size
    if not item.images:
        return FRAME
    return FRAME + sum([min(IMAGE, FRAME + image.width * image.height // PIXELS) for image in item.images])


def _rough_count(item: Item) -> int:
    size = _extra(item)
    for text in _texts(item):
        size += -(-(len(text) if text.isascii() else _bytes_of(text)) // _BYTES)
    return size


def _rough_steps(text: str) -> Steps[int]:
    size = 0
    for part in parts(text):
        size += _bytes_of(part)
        yield
    return -(-size // _BYTES)


def _bytes_of(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode(errors="replace"))
