"""Merges two rankings: each is scaled to 0…1, then they are added by weight."""

from collections.abc import Mapping, Sequence

from msgspec import Struct


class Weights(Struct, frozen=True):
    vector: float = 0.7
    text: float = 0.3


def merge_scores(by_vector: Mapping[int, float], by_text: Mapping[int, float], weights: Weights) -> dict[int, float]:
    """The score of everything that either ranking found; if one ranking is empty, the other counts alone."""
    if not by_vector:
        return scale_scores(by_text)
    if not by_text:
        return scale_scores(by_vector)
    vector, text = scale_scores(by_vector), scale_scores(by_text)
    return {
        item: weights.vector * vector.get(item, 0.0) + weights.text * text.get(item, 0.0)
        for item in {**by_vector, **by_text}
    }


def scale_scores(scores: Mapping[int, float]) -> dict[int, float]:
    """Scale to 0…1 by minimum and maximum; all 1 if they are equal."""
    if not scores:
        return {}
    least, most = min(scores.values()), max(scores.values())
    span = most - least
    return {item: (score - least) / span if span else 1.0 for item, score in scores.items()}


def rank(scores: Mapping[int, float], recency: Mapping[int, tuple[int, int]]) -> Sequence[int]:
    """Best first; ties by recency, then by number."""
    return sorted(recency, key=lambda item: (-scores[item], -recency[item][0], -recency[item][1], item))
