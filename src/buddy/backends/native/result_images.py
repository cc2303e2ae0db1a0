"""The images of a tool's result, stored as blobs.

Invariants: what is not an image, or is too large, is named in the text with the reason; a result has a bounded number
of images.
"""

import asyncio

from msgspec.structs import replace

from buddy.backends.contract import Run
from buddy.image_metadata import without_metadata
from buddy.images import MAX_IMAGES, NotAnImage, read_facts
from buddy.protocol.shapes import Attachment
from buddy.tools.contract import Output, ToolImage


async def with_stored_images(run: Run, output: Output) -> Output:
    if not output.images:
        return output
    notes: list[str] = []
    stored: list[Attachment] = []
    for image in output.images[:MAX_IMAGES]:
        try:
            stored.append(await _store(run, image))
        except NotAnImage as error:
            notes.append(f"[{image.name or 'the image'} {error}, so it is not shown]")
    if len(output.images) > MAX_IMAGES:
        notes.append(f"[{len(output.images) - MAX_IMAGES} more images are not shown]")
    return replace(output, text="\n".join((output.text, *notes)), attachments=tuple(stored), images=())


async def _store(run: Run, image: ToolImage) -> Attachment:
    facts = read_facts(image.content)
    content = await asyncio.to_thread(without_metadata, image.content)
    blob = await run.store(content)
    return Attachment(blob, facts.media_type, image.name, facts.width, facts.height, len(content))
