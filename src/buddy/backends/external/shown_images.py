"""The images of a message for an external agent: what it sees, and what describes the rest.

Invariants: an image never keeps a message from its agent. One that takes none is given a description; one that fails on
an image starts again without it, in a session of its own that has never had it.
"""

import re
from collections.abc import Sequence

from msgspec import Struct

from buddy.backends.external.contract import AgentImage, Executor, SeeingExecutor
from buddy.backends.native.loaded_images import LoadedImages, ReadBlob
from buddy.capabilities import has
from buddy.errors import ProviderError
from buddy.models.contract import Image, UserItem
from buddy.protocol.events import WarningRaised
from buddy.protocol.shapes import Attachment

LEFT_OUT = "IMAGE_LEFT_OUT"
_ABOUT_IMAGES = re.compile(
    r"image|vision|visual|multi-?modal|modalit|media.?type|mime|base64|attachment|content.(part|block|type)"
    r"|(too|payload).large|entity.too|\b413\b",
    re.IGNORECASE,
)


class Outgoing(Struct, frozen=True):
    """A message as it is sent."""

    text: str
    images: tuple[AgentImage, ...] = ()

    async def send(self, executor: Executor) -> None:
        if self.images and has(executor, SeeingExecutor):
            await executor.send_with_images(self.text, self.images)
        else:
            await executor.send_message(self.text)

    def was_refused(self, error: str) -> bool:
        """Whether an agent that did nothing but fail with these words failed on the images."""
        return bool(self.images) and _ABOUT_IMAGES.search(error) is not None


async def show_images(text: str, images: Sequence[Image], executor: Executor, read: ReadBlob | None) -> Outgoing:
    """The message with the images that the agent takes, and with descriptions of the others."""
    if not images:
        return Outgoing(text)
    if not (has(executor, SeeingExecutor) and executor.takes_images):
        return Outgoing(_join(text, [note(image, "this agent does not take images") for image in images]))
    loaded = LoadedImages(read)
    await loaded.load([UserItem(text, tuple(images))])
    shown = [image for image in dict.fromkeys(images) if image.blob in loaded.contents]
    missing = [note(image, "there is no room for it") for image in images if image.blob not in loaded.contents]
    found = [AgentImage(one.media_type, loaded.contents[one.blob].decode(), one.name) for one in shown]
    return Outgoing(_join(text, missing), tuple(found))


def images_of(attachments: Sequence[Attachment]) -> tuple[Image, ...]:
    return tuple(Image(one.blob, one.media_type, one.name, one.width, one.height) for one in attachments)


def note(image: Image, reason: str) -> str:
    return f"[{image.describe()} is not shown to you: {reason}]"


def left_out(name: str, outgoing: Outgoing, error: ProviderError | str) -> WarningRaised:
    """What a client sees when an agent fails on images; the history makes the next message of it."""
    count = "an image" if len(outgoing.images) == 1 else f"{len(outgoing.images)} images"
    message = f"{name} failed on {count}; it starts a new session and gets a description instead"
    return WarningRaised(code=LEFT_OUT, message=message, detail=str(error))


def _join(text: str, notes: Sequence[str]) -> str:
    return "\n\n".join(part for part in (text, *notes) if part)
