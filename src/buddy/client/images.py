"""Images of a message: read from files, and brought to a session before the message that names them."""

import base64
from pathlib import Path
from typing import NamedTuple

from buddy.client.core import Fields
from buddy.client.steps import Ask, Steps
from buddy.errors import UserError
from buddy.images import MAX_BYTES, MAX_IMAGES, NotAnImage, read_facts
from buddy.regular_files import read_regular

PART = 384 * 1024  # bytes; in base64 half of what a request may have
_HINT = "PNG, JPEG, GIF and WebP can be sent"


class ImageFile(NamedTuple):
    name: str
    content: bytes


def read_images(paths: list[str]) -> list[ImageFile]:
    """The images in these files; UserError says what is wrong with one."""
    if len(paths) > MAX_IMAGES:
        raise UserError(f"{len(paths)} images were given; a message may have {MAX_IMAGES}")
    return [read_image(path) for path in paths]


def read_image(path: str) -> ImageFile:
    try:
        content = read_regular(path, MAX_BYTES + 1, follow=True)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise UserError(f"cannot read the image {path}: {reason}", hint=_HINT) from error
    if len(content) > MAX_BYTES:
        size = Path(path).stat().st_size / 1024**2
        hint = "make it smaller, or send a part of it"
        raise UserError(f"{path} has {size:.1f} MiB; an image may have {MAX_BYTES // 1024**2} MiB", hint=hint)
    try:
        read_facts(content)
    except NotAnImage as error:
        raise UserError(f"{path} {error}", hint=_HINT) from error
    return ImageFile(Path(path).name, content)


def upload_images(session_id: str, images: list[ImageFile]) -> Steps[list[Fields]]:
    """Bring images to a session; returns the attachments of the message that shows them."""
    found: list[Fields] = []
    for image in images:
        blob = yield from _upload(session_id, image.content)
        media_type = read_facts(image.content).media_type
        found.append({"blob": blob, "mediaType": media_type, "name": image.name})
    return found


def _upload(session_id: str, content: bytes) -> Steps[str]:
    upload: Fields = {}
    for offset in range(0, len(content), PART):
        part = content[offset : offset + PART]
        payload = {"data": base64.b64encode(part).decode(), "offset": offset, "last": offset + PART >= len(content)}
        reply = yield Ask("upload_blob", {**payload, **upload}, session_id)
        upload = {"blob": reply["blob"]}
    return upload["blob"]
