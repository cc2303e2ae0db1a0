"""Static word embeddings: the mean of a text's token vectors. Fast, coarse, and all of it in one registry package.

Only the package's data is used: importing it would cost a third of a second, and its loader looks for a file that the
package has under another name.
"""

from collections.abc import Sequence
from functools import cached_property

from tokenizers import Tokenizer

from buddy.memory.arrays import np
from buddy.memory.vectors import Vectors, normalise
from buddy.memory.weights import package_folder, read_weights


class WordLlama:
    name = "wordllama-l2-supercat-256"
    floor = 0.08

    def embed(self, texts: Sequence[str]) -> Vectors:
        table, tokenizer = self._table, self._tokenizer
        rows = np.zeros((len(texts), table.shape[1]), np.float32)
        for row, encoding in zip(rows, tokenizer.encode_batch(list(texts), add_special_tokens=False), strict=True):
            if encoding.ids:
                row[:] = table[encoding.ids].mean(axis=0)
        return normalise(rows)

    @cached_property
    def _table(self) -> Vectors:
        weights = read_weights(package_folder("wordllama") / "weights" / "l2_supercat_256.safetensors")
        return weights["embedding.weight"]

    @cached_property
    def _tokenizer(self) -> Tokenizer:
        path = package_folder("wordllama") / "tokenizers" / "l2_supercat_tokenizer_config.json"
        tokenizer = Tokenizer.from_file(str(path))
        tokenizer.no_padding()
        return tokenizer
