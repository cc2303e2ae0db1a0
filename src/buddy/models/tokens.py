"""Counts the tokens of a text for a model, offline.

Invariants: counting never fails and makes no requests; the vocabulary (25 MB) is loaded by the first count; a counter
adapts to what the model's own usage reports, within a factor of two.
"""

import importlib.util
import re
import threading
from collections.abc import Callable
from typing import Protocol

from buddy.steps import Steps

_RATIO = (0.5, 2.0)
_WEIGHT = 0.25
_CHARS = 4
PART = 32 * 1024
_NEAR = 1024
# Between two words: tokens begin with the blank or the newline before a word, and never with the end of another.
_SEAM = re.compile(r"(?<=[A-Za-z])[ \n](?=[A-Za-z])")
_O200K = r"(?:chatgpt-4o|codex|gpt-oss|gpt-(?:4o|4\.[1-9]|[5-9]|[1-9]\d)|o[1-9](?!\d))(?![a-z])"

_counts: dict[str, Callable[[str], int]] = {}
_loading = threading.Lock()


def count(text: str, model: str = "") -> int:
    """Tokens of the text: exact for OpenAI's models, close for others, about four characters each without rs-bpe."""
    name = vocabulary(model)
    found = _counts.get(name)
    if found is None:
        with _loading:
            found = _counts.setdefault(name, _load(name))
    return found(text)


def count_steps(text: str, model: str = "") -> Steps[int]:
    """The same in steps, for texts of any length: cut where a token can't reach across, if there is such a place."""
    total = start = 0
    while start < len(text):
        end = _seam(text, start)
        total += count(text[start:end], model)
        start = end
        yield
    return total


def _seam(text: str, start: int) -> int:
    end = start + PART
    if end >= len(text):
        return len(text)
    seams = [found.start() for found in _SEAM.finditer(text, end - _NEAR, end)]
    return seams[-1] if seams else end


def vocabulary(model: str) -> str:
    """`o200k_base` for OpenAI's newer names, `cl100k_base` for everything else."""
    return "o200k_base" if re.match(_O200K, model.rpartition("/")[2], re.IGNORECASE) else "cl100k_base"


class Counter:
    """Counts for one model and learns from what its server reports."""

    def __init__(self, model: str) -> None:
        self.model = model
        self.ratio = 1.0

    def count(self, text: str) -> int:
        return self.scale(count(text, self.model))

    def scale(self, tokens: int) -> int:
        """What `tokens` of the local vocabulary are to this model."""
        return round(tokens * self.ratio)

    def calibrate(self, estimated: int, reported: int) -> None:
        """A call that was counted as `estimated` by this counter was `reported` by the server."""
        if estimated <= 0 or reported <= 0:
            return
        low, high = _RATIO
        seen = min(high, max(low, self.ratio * reported / estimated))
        self.ratio += _WEIGHT * (seen - self.ratio)


class _Tokenizer(Protocol):
    def count(self, text: str) -> int: ...


def _load(name: str) -> Callable[[str], int]:
    # Checked first: if its binary part is missing, rs_bpe prints and exits the process.
    if importlib.util.find_spec("rs_bpe") is None or importlib.util.find_spec("rs_bpe.bpe") is None:
        return _estimate
    from rs_bpe import openai  # pyright: ignore[reportUnknownVariableType] - it ships without types for this part

    make: Callable[[], _Tokenizer] = getattr(openai, name)  # pyright: ignore[reportUnknownArgumentType] - untyped, see above
    tokenizer = make()

    def exact(text: str) -> int:
        try:
            return tokenizer.count(text)
        except UnicodeEncodeError:  # half of a surrogate pair
            return tokenizer.count(text.encode(errors="replace").decode())

    return exact


def _estimate(text: str) -> int:
    return -(-len(text) // _CHARS)
