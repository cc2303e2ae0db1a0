"""Completion: slash commands at the start of a line, workspace files after `@`.

Invariants: the editor never waits for it; file names with control characters, and files that git ignores, are left out.
"""

import heapq
import os
import subprocess
import threading
import time
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from pathlib import Path

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from buddy.errors import UserError
from buddy.git import open_repository
from buddy.terminal.escape import escape

MAX_FILES = 200_000
MAX_MATCHES = 50
MENU_ROWS = 6
CACHE_SECONDS = 5.0
GIT_SECONDS = 5.0
SKIPPED_FOLDERS = frozenset({".git", "node_modules", "__pycache__", ".venv"})


class Names:
    """Names in which a text is looked for, without regard to case: all at once, in one text with a line for each."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        lines = [name.lower() for name in names]
        self._text = "\n".join(lines)
        self._starts = array("Q", accumulate((len(line) + 1 for line in lines), initial=0))

    def containing(self, part: str) -> Iterator[tuple[str, str]]:
        """Each name in lower case and as it is; `part` is in lower case, and on one line."""
        at = self._text.find(part) if self._names else -1
        while at >= 0:
            number = bisect_right(self._starts, at) - 1
            start, after = self._starts[number], self._starts[number + 1]
            yield self._text[start : after - 1], self._names[number]
            at = self._text.find(part, after)


class WorkspaceFiles:
    """The files of a workspace, cached for a few seconds; safe to use from any thread."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._names = Names([])
        self._read_at = 0.0
        self._lock = threading.Lock()

    def matching(self, part: str) -> list[str]:
        """Names that contain the text: first those whose file name starts with it, then shorter before longer."""
        wanted = part.lower()

        def rank(names: tuple[str, str]) -> tuple[bool, bool, int, str]:
            lower, name = names
            return (not lower.rpartition("/")[2].startswith(wanted), not lower.startswith(wanted), len(name), name)

        found = self._all().containing(wanted)
        return [name for _, name in heapq.nsmallest(MAX_MATCHES, found, key=rank)]

    def _all(self) -> Names:
        with self._lock:
            now = time.monotonic()
            if not self._read_at or now - self._read_at > CACHE_SECONDS:
                self._names = Names([name for name in self._read() if escape(name) == name])
                self._read_at = now
            return self._names

    def _read(self) -> list[str]:
        try:
            with open_repository(self._root) as git:
                done = subprocess.run(
                    git.list_files(), capture_output=True, timeout=GIT_SECONDS, check=True, env=git.environment
                )
        except (OSError, UserError, subprocess.SubprocessError):
            return list(_walk(Path(self._root)))
        return done.stdout.decode(errors="surrogateescape").split("\0")[: MAX_FILES + 1][:-1]


def _walk(root: Path) -> Iterator[str]:
    """Files below a folder outside git, up to a limit."""
    left = MAX_FILES
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if name not in SKIPPED_FOLDERS and not name.startswith("."))
        for name in sorted(names):
            left -= 1
            if left < 0:
                return
            yield os.path.relpath(Path(folder, name), root)


def wants_menu(document: Document) -> bool:
    """Whether the word being typed can be completed."""
    before = document.text_before_cursor
    is_command = before.startswith("/") and " " not in before and "\n" not in before
    return is_command or _last_word(before).startswith("@")


def _last_word(text: str) -> str:
    return text.rpartition(" ")[2].rpartition("\n")[2]


class InputCompleter(Completer):
    def __init__(self, commands: Callable[[], Sequence[tuple[str, str]]], files: WorkspaceFiles) -> None:
        self._commands = commands
        self._files = files

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        del complete_event
        before = document.text_before_cursor
        if not wants_menu(document):
            return
        if before.startswith("/"):
            for name, help_text in self._commands():
                if name.startswith(before):
                    yield Completion(name, -len(before), display_meta=help_text)
            return
        word = _last_word(before)
        for name in self._files.matching(word[1:]):
            yield Completion(f"@{name}", -len(word), display=name)
