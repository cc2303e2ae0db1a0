"""Embeddings from a model server: `POST /embeddings`, as in OpenAI's API."""

from collections.abc import Sequence

import httpx2
import msgspec
from msgspec import Struct

from buddy.errors import ProviderError
from buddy.memory.arrays import np
from buddy.memory.vectors import Vectors, normalise

SECONDS = 30.0


class _Row(Struct):
    index: int
    embedding: list[float]


class _EmbeddingsResponse(Struct):
    data: list[_Row]


class RemoteEmbedder:
    floor = 0.2

    def __init__(self, base_url: str, api_key: str, model: str) -> None:
        self.name = f"{base_url} {model}"
        self._model = model
        headers = {"authorization": f"Bearer {api_key}"} if api_key else {}
        self._client = httpx2.Client(base_url=f"{base_url.rstrip('/')}/", headers=headers, timeout=SECONDS)

    def embed(self, texts: Sequence[str]) -> Vectors:
        """One request; ProviderError if it fails."""
        try:
            response = self._client.post("embeddings", json={"model": self._model, "input": list(texts)})
            response.raise_for_status()
            rows = msgspec.json.decode(response.content, type=_EmbeddingsResponse).data
        except (httpx2.HTTPError, msgspec.DecodeError) as error:
            raise ProviderError(f"no embeddings from {self._model}: {error}", retryable=True) from error
        if sorted(row.index for row in rows) != list(range(len(texts))):
            raise ProviderError(
                f"{self._model} returned {len(rows)} embeddings for {len(texts)} texts", retryable=False
            )
        ordered = sorted(rows, key=lambda row: row.index)
        try:
            return normalise(np.array([row.embedding for row in ordered], np.float32))
        except ValueError as error:
            raise ProviderError(f"{self._model} returned vectors of different lengths", retryable=False) from error

    def close(self) -> None:
        self._client.close()
