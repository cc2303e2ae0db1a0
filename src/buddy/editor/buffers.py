"""Files that a prompt links, as the editor has them: what is not saved yet is what the person means.

Invariants: the editor is asked for local files alone; what it has saved is left to the model to read; an editor that
does not answer delays no prompt for long.
"""

import asyncio
from pathlib import Path

from buddy.editor.json_rpc import Peer, RpcError
from buddy.editor.prompts import ReadPrompt, Resource

SECONDS = 5.0
MAX_BUFFER = 128 * 1024


async def unsaved_buffers(peer: Peer, session_id: str, prompt: ReadPrompt) -> dict[str, str]:
    """The texts of linked files that differ from what is on disk, by URI."""
    linked = [one for one in dict.fromkeys(prompt.resources) if one.text is None and one.path]
    texts = await asyncio.gather(*(_read(peer, session_id, one) for one in linked))
    return {one.uri: text for one, text in zip(linked, texts, strict=True) if text is not None}


async def _read(peer: Peer, session_id: str, resource: Resource) -> str | None:
    try:
        async with asyncio.timeout(SECONDS):
            answer = await peer.request("fs/read_text_file", {"sessionId": session_id, "path": resource.path})
    except (RpcError, TimeoutError):
        return None
    text = answer.get("content")
    if not isinstance(text, str) or len(text) > MAX_BUFFER:
        return None
    return None if await asyncio.to_thread(_saved, resource.path or "") == text else text


def _saved(path: str) -> str | None:
    """What is on disk; None if it is no text, or much more than a buffer may have."""
    try:
        with Path(path).open(encoding="utf-8", newline="") as file:
            return file.read(MAX_BUFFER + 1)
    except (OSError, UnicodeDecodeError):
        return None
