"""An editor's prompt, which is a list of content blocks, as the text of a message.

Invariants: what the person typed comes first and in order, so that a slash command stays one; the contents of files and
other resources follow it, each under its own name.
"""

import base64
import binascii
from collections.abc import Mapping, Sequence
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from buddy.client.images import ImageFile
from buddy.editor.json_rpc import INVALID_PARAMS, Json, RpcError, is_object
from buddy.images import MAX_BYTES, MAX_IMAGES, NotAnImage, read_facts

MAX_TEXT = 256 * 1024


class Resource(Struct, frozen=True):
    """Something that the prompt mentions; `text` is None if the editor only linked it."""

    uri: str
    name: str
    text: str | None = None

    @property
    def path(self) -> str | None:
        """The local file that it is."""
        address = urlsplit(self.uri)
        return unquote(address.path) if address.scheme == "file" and address.netloc in ("", "localhost") else None

    @property
    def shown(self) -> str:
        return self.path or self.uri


class ReadPrompt(Struct, frozen=True):
    text: str
    resources: tuple[Resource, ...] = ()
    images: tuple[ImageFile, ...] = ()


def read_prompt(blocks: Sequence[Json]) -> ReadPrompt:
    """The text with a mention of each resource, and the resources."""
    parts: list[str] = []
    resources: list[Resource] = []
    images: list[ImageFile] = []
    for block in blocks:
        match block.get("type"):
            case "text":
                parts.append(_field(block, "text"))
            case "resource_link":
                resources.append(Resource(_field(block, "uri"), str(block.get("name") or "")))
                parts.append(f"@{resources[-1].shown}")
            case "resource":
                resources.append(_embedded(block))
                parts.append(f"@{resources[-1].shown}")
            case "image":
                images.append(_image(block, f"image-{len(images) + 1}"))
            case kind:
                raise RpcError(INVALID_PARAMS, f"a prompt can't have content of type {kind!r}")
    if len(images) > MAX_IMAGES:
        raise RpcError(INVALID_PARAMS, f"a message may have {MAX_IMAGES} images, not {len(images)}")
    return ReadPrompt("".join(parts), tuple(resources), tuple(images))


def message_text(prompt: ReadPrompt, buffers: Mapping[str, str]) -> str:
    """The message; `buffers` are linked files by URI whose text in the editor is not saved."""
    sections = [prompt.text.strip()]
    for resource in dict.fromkeys(prompt.resources):
        text = resource.text if resource.text is not None else buffers.get(resource.uri)
        if text is not None:
            fence = _fence(text)
            unsaved = " (in the editor, not saved yet)" if resource.text is None else ""
            sections.append(f"Content of {resource.shown}{unsaved}:\n{fence}\n{text.rstrip()}\n{fence}")
    message = "\n\n".join(section for section in sections if section)
    if not message and prompt.images:
        return "Look at the image." if len(prompt.images) == 1 else "Look at the images."
    if not message:
        raise RpcError(INVALID_PARAMS, "the prompt is empty")
    size = len(message.encode("utf-8", "replace"))
    if size > MAX_TEXT:
        raise RpcError(INVALID_PARAMS, f"the prompt has {size} bytes, more than {MAX_TEXT}; link files instead")
    return message


def _embedded(block: Json) -> Resource:
    resource = block.get("resource")
    if not is_object(resource):
        raise RpcError(INVALID_PARAMS, "a resource has no content")
    uri = _field(resource, "uri")
    if not isinstance(resource.get("text"), str):
        raise RpcError(INVALID_PARAMS, f"{uri} is not text; only text can be embedded")
    return Resource(uri, "", resource["text"])


def _image(block: Json, name: str) -> ImageFile:
    uri = block.get("uri")
    name = uri.rpartition("/")[2] if isinstance(uri, str) and uri else name
    try:
        content = base64.b64decode(_field(block, "data"), validate=True)
        if len(content) > MAX_BYTES:
            raise RpcError(INVALID_PARAMS, f"{name} has {len(content)} bytes; an image may have {MAX_BYTES}")
        read_facts(content)
    except binascii.Error as error:
        raise RpcError(INVALID_PARAMS, f"{name} is not base64: {error}") from error
    except NotAnImage as error:
        raise RpcError(INVALID_PARAMS, f"{name} {error}") from error
    return ImageFile(name, content)


def _field(block: Json, name: str) -> str:
    value = block.get(name)
    if not isinstance(value, str):
        raise RpcError(INVALID_PARAMS, f"content of type {block.get('type')!r} needs a {name!r}")
    return value


def _fence(text: str) -> str:
    """Backticks that do not occur in the text."""
    fence = "```"
    while fence in text:
        fence += "`"
    return fence
