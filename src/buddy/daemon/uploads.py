"""Images that clients bring: in parts, checked, stored as blobs, and then named by a message.

Invariants: what is neither complete nor an image is never stored; parts that wait for the rest are bounded, and the
oldest upload is forgotten first; a message names only what was brought for its session, or what its log names; what no
message names within a day is removed. What an image says about where it was taken is never stored.
"""

import asyncio
import base64
import binascii
import hashlib
from collections import OrderedDict
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from buddy.errors import ProtocolError
from buddy.image_metadata import without_metadata
from buddy.images import MAX_BYTES, MAX_IMAGES, ImageFacts, NotAnImage, read_facts
from buddy.log.contract import Log
from buddy.protocol.blob_requests import UploadBlob, UploadBlobReply
from buddy.protocol.shapes import Attachment

MAX_OPEN = 8
MAX_OF_SESSION = 2
"""A session with more loses its own oldest upload first."""


class Uploads:
    def __init__(self, log: Log, make_id: Callable[[str], str]) -> None:
        self._log = log
        self._make_id = make_id
        self._open: OrderedDict[tuple[str, str], bytearray] = OrderedDict()

    async def add(self, session_id: str, part: UploadBlob) -> UploadBlobReply:
        """Take a part of an upload to this session."""
        name = part.blob or self._make_id("up")
        content = self._open.get((session_id, name)) if part.blob else bytearray()
        if content is None:
            raise ProtocolError("INVALID_REQUEST", f"unknown upload {name[:80]!r}: begin again, without blob")
        if part.offset != len(content):
            raise ProtocolError("INVALID_REQUEST", f"offset is {part.offset}, but {len(content)} bytes have arrived")
        try:
            content += base64.b64decode(part.data, validate=True)
        except (binascii.Error, ValueError) as error:
            raise ProtocolError("INVALID_REQUEST", f"data is not base64: {error}") from error
        if len(content) > MAX_BYTES:
            self._open.pop((session_id, name), None)
            raise ProtocolError("INVALID_REQUEST", f"an image may have {MAX_BYTES // 1024**2} MiB, and this has more")
        if part.last:
            self._open.pop((session_id, name), None)
            return await self._store(session_id, bytes(content))
        self._open[session_id, name] = content
        if len(self._open) > MAX_OPEN:
            own = [key for key in self._open if key[0] == session_id]
            del self._open[own[0] if len(own) > MAX_OF_SESSION else next(iter(self._open))]
        return UploadBlobReply(name, len(content))

    async def check(self, session_id: str, attachments: Sequence[Attachment]) -> tuple[Attachment, ...]:
        """The attachments as they are recorded, with what their content says; ProtocolError if one is not an image."""
        if len(attachments) > MAX_IMAGES:
            raise ProtocolError("INVALID_REQUEST", f"a message may have {MAX_IMAGES} images, not {len(attachments)}")
        return tuple([await self._checked(session_id, attachment) for attachment in attachments])

    async def _checked(self, session_id: str, attachment: Attachment) -> Attachment:
        blob = attachment.blob
        is_ours = await self._log.has_blob(session_id, blob)
        if is_ours:
            await self._log.hold_blob(session_id, blob)  # so that it stays until the message is recorded
        found = await self._log.read_blob(blob) if is_ours else None
        if found is None:
            raise ProtocolError("INVALID_REQUEST", f"unknown blob {blob[:80]!r}: bring it with upload_blob first")
        facts = _facts(found[0], attachment.name or "the image")
        return replace(attachment, media_type=facts.media_type, width=facts.width, height=facts.height, size=facts.size)

    async def _store(self, session_id: str, content: bytes) -> UploadBlobReply:
        kept = await asyncio.to_thread(_checked_content, content)
        # Held first: what is stored without an owner would stay for good if this process died now.
        await self._log.hold_blob(session_id, hashlib.sha256(kept).hexdigest())
        return UploadBlobReply(await self._log.put_blob(kept), len(content))


def _checked_content(content: bytes) -> bytes:
    _facts(content, "the content")
    return without_metadata(content)


def _facts(content: bytes, name: str) -> ImageFacts:
    try:
        return read_facts(content)
    except NotAnImage as error:
        raise ProtocolError("INVALID_REQUEST", f"{name} {error}") from error
