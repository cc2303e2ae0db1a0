"""Reads a model's weights from its file (safetensors: a JSON header, then plain arrays)."""

from importlib.util import find_spec
from pathlib import Path

import msgspec
from msgspec import Struct

from buddy.memory.arrays import np
from buddy.memory.vectors import Vectors


class _Array(Struct):
    dtype: str
    shape: tuple[int, ...]
    data_offsets: tuple[int, int]


def read_weights(path: Path) -> dict[str, Vectors]:
    """Every array of floats in the file, by name."""
    content = path.read_bytes()
    size = int.from_bytes(content[:8], "little")
    header = msgspec.json.decode(content[8 : 8 + size], type=dict[str, msgspec.Raw])
    body = memoryview(content)[8 + size :]
    found: dict[str, Vectors] = {}
    for name, entry in header.items():
        array = msgspec.json.decode(entry, type=_Array) if name != "__metadata__" else None
        if array is not None and array.dtype in _FLOATS:
            start, end = array.data_offsets
            values = np.frombuffer(body[start:end], _FLOATS[array.dtype])
            found[name] = values.astype(np.float32).reshape(array.shape)
    return found


def package_folder(name: str) -> Path:
    """Where an installed package is, without importing it."""
    spec = find_spec(name)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(name)
    return Path(spec.origin).parent


_FLOATS = {"F32": "<f4", "F16": "<f2"}
