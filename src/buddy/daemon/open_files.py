"""What editors have open: tools ask the editor of their session for the text that a person sees.

Invariants: asking changes nothing; an editor that does not answer delays a call once, and is then left alone for a
while; without an answer, what is on disk counts. What was written since the editor offered its files counts as it is
on disk, because an editor may still show what was there before.
"""

import asyncio
import hashlib
import time
from collections import deque

from msgspec import Struct, field

from buddy.daemon.connection import PeerConnection
from buddy.protocol.basics import Ulids
from buddy.protocol.envelopes import FileEvent
from buddy.protocol.events import SessionStarted
from buddy.protocol.open_file_requests import AnswerFile, FileWanted, OfferFiles

SECONDS = 2.0
SILENT_SECONDS = 60.0
REPLACED = 8
"""The earlier texts of a file that are known, so that an editor which still shows one is not taken for a person."""


class _Editor(Struct, eq=False):
    peer: PeerConnection
    writes: bool
    offered_ns: int
    silent_until: float = 0.0
    replaced: dict[str, deque[str]] = field(default_factory=dict[str, "deque[str]"])


class OpenFiles:
    """The editors by session."""

    def __init__(self) -> None:
        self._editors: dict[str, _Editor] = {}
        self._waiting: dict[str, tuple[PeerConnection, asyncio.Future[AnswerFile]]] = {}
        self._ids = Ulids()

    def offer(self, peer: PeerConnection, offered: OfferFiles) -> None:
        known = self._editors.get(offered.session_id)
        editor = _Editor(peer, offered.writes, time.time_ns())
        if known is not None and known.peer is peer:
            editor.replaced, editor.silent_until = known.replaced, known.silent_until
        else:
            peer.on_close(lambda: self._remove(offered.session_id, peer))
        self._editors[offered.session_id] = editor

    def answer(self, peer: PeerConnection, answer: AnswerFile) -> bool:
        """Whether somebody still waits for it."""
        asked, waiting = self._waiting.get(answer.file_request_id, (None, None))
        if asked is not peer or waiting is None or waiting.done():
            return False
        waiting.set_result(answer)
        return True

    def of(self, started: SessionStarted) -> "SessionFiles":
        """The files of a session; a sub-agent's are those of its parent."""
        delegated = started.delegated
        return SessionFiles(self, (started.session_id, *((delegated.parent,) if delegated else ())))

    def find(self, session_ids: tuple[str, ...]) -> tuple[str, _Editor] | None:
        return next(((one, self._editors[one]) for one in session_ids if one in self._editors), None)

    async def ask(self, session_id: str, editor: _Editor, path: str, content: str | None = None) -> AnswerFile | None:
        if time.monotonic() < editor.silent_until:
            return None
        wanted = FileWanted(self._ids("file"), path, content)
        answered = asyncio.get_running_loop().create_future()
        self._waiting[wanted.file_request_id] = editor.peer, answered
        try:
            editor.peer.send_soon(FileEvent(session_id, time.time_ns() // 1_000_000, wanted).line())
            async with asyncio.timeout(SECONDS):
                return await answered
        except TimeoutError:
            editor.silent_until = time.monotonic() + SILENT_SECONDS
            return None
        finally:
            del self._waiting[wanted.file_request_id]

    def _remove(self, session_id: str, peer: PeerConnection) -> None:
        editor = self._editors.get(session_id)
        if editor is not None and editor.peer is peer:
            del self._editors[session_id]


class SessionFiles:
    """Satisfies the tools' `EditorFiles`."""

    def __init__(self, all_files: OpenFiles, session_ids: tuple[str, ...]) -> None:
        self._all = all_files
        self._session_ids = session_ids

    @property
    def is_connected(self) -> bool:
        return self._all.find(self._session_ids) is not None

    @property
    def is_writable(self) -> bool:
        found = self._all.find(self._session_ids)
        return found is not None and found[1].writes

    async def read(self, path: str, changed_ns: int) -> str | None:
        found = self._all.find(self._session_ids)
        if found is None or changed_ns > found[1].offered_ns:
            return None
        answer = await self._all.ask(*found, path)
        text = answer.content if answer is not None else None
        if text is None or _hash(text) in found[1].replaced.get(path, ()):
            return None
        return text

    async def write(self, path: str, content: str) -> bool:
        found = self._all.find(self._session_ids)
        answer = await self._all.ask(*found, path, content) if found is not None else None
        return answer is not None and answer.written

    def note_replaced(self, path: str, content: bytes) -> None:
        found = self._all.find(self._session_ids)
        if found is not None:
            known = found[1].replaced.setdefault(path, deque[str](maxlen=REPLACED))
            known.append(_hash(content.decode("utf-8", "replace")))


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
