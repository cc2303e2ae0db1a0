"""Files as the editor has them: what is not saved yet is what the person means.

Invariants: the editor is asked for local files alone; what it has saved is left to the model to read; an editor that
does not answer delays no prompt for long.
"""

import asyncio
import json
from pathlib import Path

from buddy.client.client import Client
from buddy.editor.json_rpc import Peer, RpcError
from buddy.editor.prompts import ReadPrompt, Resource
from buddy.errors import ProtocolError
from buddy.protocol.envelopes import FileEvent
from buddy.protocol.open_file_requests import AnswerFile, FileWanted, OfferFiles
from buddy.protocol.requests import AcceptedReply
from buddy.unsaved_text import unsaved_text

SECONDS = 5.0
MAX_LINKED = 128 * 1024
MAX_BUFFER = 256 * 1024
MAX_FRAME = 900 * 1024
"""Bytes of an answer, with its escapes."""


async def unsaved_buffers(peer: Peer, session_id: str, prompt: ReadPrompt) -> dict[str, str]:
    """The texts of linked files that differ from what is on disk, by URI."""
    linked = [one for one in dict.fromkeys(prompt.resources) if one.text is None and one.path]
    texts = await asyncio.gather(*(_read_linked(peer, session_id, one) for one in linked))
    return {one.uri: text for one, text in zip(linked, texts, strict=True) if text is not None}


async def offer_files(client: Client, session_id: str, *, writes: bool) -> None:
    """Have the tools of the session ask this editor; a runtime that does not know how reads what is on disk."""
    try:
        await client.request(OfferFiles(session_id, writes), AcceptedReply)
    except ProtocolError as error:
        if error.code != "UNSUPPORTED_REQUEST_TYPE":
            raise


async def answer_file(peer: Peer, client: Client, event: FileEvent) -> None:
    """Ask the editor what the runtime wants to know of a file, and pass its answer on."""
    wanted = event.payload
    if wanted.content is None:
        text = await _read(peer, event.session_id, wanted.path)
        answer = AnswerFile(wanted.file_request_id, text if text is not None and _fits(text) else None)
    else:
        answer = AnswerFile(wanted.file_request_id, written=await _write(peer, event.session_id, wanted))
    await client.request(answer, AcceptedReply)


async def _read_linked(peer: Peer, session_id: str, resource: Resource) -> str | None:
    text = await _read(peer, session_id, resource.path or "")
    if text is None or len(text) > MAX_LINKED:
        return None
    saved = await asyncio.to_thread(_saved, resource.path or "")
    if saved is None:
        return text  # it is not on disk yet
    return None if unsaved_text(saved, text) is None else text


async def _read(peer: Peer, session_id: str, path: str) -> str | None:
    try:
        async with asyncio.timeout(SECONDS):
            answer = await peer.request("fs/read_text_file", {"sessionId": session_id, "path": path})
    except (RpcError, TimeoutError):
        return None
    text = answer.get("content")
    return text if isinstance(text, str) else None


async def _write(peer: Peer, session_id: str, wanted: FileWanted) -> bool:
    params = {"sessionId": session_id, "path": wanted.path, "content": wanted.content}
    try:
        async with asyncio.timeout(SECONDS):
            await peer.request("fs/write_text_file", params)
    except (RpcError, TimeoutError):
        return False
    return True


def _fits(text: str) -> bool:
    """Whether a text may be sent: half a character can't be, and a text of escapes grows."""
    try:
        return len(text.encode()) <= MAX_BUFFER and len(json.dumps(text, ensure_ascii=False)) <= MAX_FRAME
    except UnicodeEncodeError:
        return False


def _saved(path: str) -> bytes | None:
    """The start of what is on disk; None if there is no such file."""
    try:
        with Path(path).open("rb") as file:
            return file.read(4 * MAX_LINKED + 1)
    except OSError:
        return None
