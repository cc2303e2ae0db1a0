"""The input history: what was typed, on disk without its secrets."""

from collections.abc import Callable
from pathlib import Path

from prompt_toolkit.history import FileHistory


class ScrubbedHistory(FileHistory):
    """Within one run of the program a line is recalled as it was typed; only its scrubbed form is stored."""

    def __init__(self, path: Path, scrub: Callable[[str], str]) -> None:
        super().__init__(str(path))
        self._scrub = scrub

    def store_string(self, string: str) -> None:
        super().store_string(self._scrub(string))
