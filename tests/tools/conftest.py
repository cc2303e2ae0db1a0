"""A workspace and a call in it."""

from pathlib import Path
from typing import Literal
from uuid import uuid4

import pytest

from buddy.targets.local import Local
from buddy.tools.contract import Call, Place


@pytest.fixture
def place(tmp_path: Path) -> Place:
    root = tmp_path / "root"
    root.mkdir()
    return Place(Local(grace=0.1), str(root))


@pytest.fixture
def root(place: Place) -> Path:
    return Path(place.root)


@pytest.fixture
def output() -> list[tuple[str, bytes]]:
    """What a call streamed while it ran."""
    return []


@pytest.fixture
def call(place: Place, output: list[tuple[str, bytes]]) -> Call:
    async def take(stream: Literal["stdout", "stderr"], chunk: bytes) -> None:
        output.append((stream, chunk))

    return Call("call_1", place, uuid4().hex, take)
