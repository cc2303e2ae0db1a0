"""Local pages that lead a browser to a link, so that the link is in no list of processes.

Invariants: only their owner can read them; they are removed when the link has expired, and with the daemon.
"""

import asyncio
import os
from pathlib import Path

_PAGE = """<!doctype html>
<meta charset="utf-8">
<meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url={link}">
<title>Buddy</title>
<p><a href="{link}">Open the console</a></p>
"""
SECONDS = 60.0
"""A browser that is started opens the page within this time."""


class Redirects:
    def __init__(self, state_dir: Path) -> None:
        self._folder = state_dir
        self._remove_all()

    def create(self, link: str, seconds: float) -> Path:
        import html
        import secrets

        path = self._folder / f"console-{secrets.token_hex(8)}.html"
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(_PAGE.format(link=html.escape(link)))
        asyncio.get_running_loop().call_later(min(seconds, SECONDS), path.unlink, True)
        return path

    def close(self) -> None:
        self._remove_all()

    def _remove_all(self) -> None:
        for path in self._folder.glob("console-*.html"):
            path.unlink(missing_ok=True)
