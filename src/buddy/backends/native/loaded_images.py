"""The contents of the images that a prompt shows.

Invariants: the newest images are shown, as many as one request can carry; a content that is gone from the log is left
out, and the conversation goes on without it.
"""

import asyncio
import base64
from collections.abc import Awaitable, Callable, Mapping, Sequence

from buddy.models.contract import Image, Item, images_in

MAX_BYTES = 24 * 1024 * 1024
"""Of one request's images; most servers take 32 MiB in all, and base64 adds a third."""
MAX_SHOWN = 20

ReadBlob = Callable[[str, int, int | None], Awaitable[tuple[bytes, int] | None]]


class LoadedImages:
    def __init__(self, read_blob: ReadBlob | None) -> None:
        self._read = read_blob
        self.contents: Mapping[str, bytes] = {}

    async def load(self, items: Sequence[Item]) -> None:
        """Read the images of a history, in base64; those that were read before are kept."""
        images = images_in(items)
        if self._read is None or not (images or self.contents):
            return
        room, found = MAX_BYTES, dict[str, bytes]()
        for image in reversed(images):
            if image.blob in found:
                continue
            content = await self._content(self._read, image)
            room -= len(content) * 3 // 4
            if room < 0 or len(found) == MAX_SHOWN:
                break
            if content:
                found[image.blob] = content
        if found.keys() != self.contents.keys():
            self.contents = found

    async def _content(self, read: ReadBlob, image: Image) -> bytes:
        known = self.contents.get(image.blob)
        if known is not None:
            return known
        stored = await read(image.blob, 0, None)
        return await asyncio.to_thread(base64.b64encode, stored[0]) if stored else b""
