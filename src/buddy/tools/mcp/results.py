"""What a server answered, as the text that a model reads.

Invariants: nothing is left out silently; what is not text is named with its type and size.
"""

import base64
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from mcp_types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)

from buddy.images import MAX_BYTES, media_type_of
from buddy.tools.contract import Output, ToolImage


def output_of(result: CallToolResult) -> Output:
    """The result of a call; `structuredContent` only where the text does not already have it."""
    parts = [_shown_text(block) for block in result.content]
    structured: Any = result.structured_content
    if structured is not None and not any(_says(part, structured) for part in parts):
        parts.append(msgspec.json.encode(structured).decode())
    text = "\n".join(part for part in parts if part) or "(no output)"
    return Output(text, is_error=result.is_error, images=tuple(_images(result.content)))


def _images(blocks: Iterable[ContentBlock]) -> Iterator[ToolImage]:
    for block in blocks:
        if isinstance(block, ImageContent) and (content := _image(block)):
            yield ToolImage(content)


def _shown_text(block: ContentBlock) -> str:
    if isinstance(block, ImageContent) and _image(block):
        return f"[image {block.mime_type}, {_size(block.data)}]"
    return block_text(block)


def _image(block: ImageContent) -> bytes:
    """The content, if it is an image that models take."""
    if len(block.data) > 2 * MAX_BYTES:
        return b""
    try:
        content = base64.b64decode(block.data, validate=True)
    except ValueError:
        return b""
    return content if media_type_of(content) else b""


def block_text(block: ContentBlock) -> str:
    match block:
        case TextContent():
            return block.text
        case ImageContent() | AudioContent():
            return f"[{block.type} {block.mime_type}, {_size(block.data)}: not shown]"
        case ResourceLink():
            about = f" ({block.description})" if block.description else ""
            return f"[resource {block.name}: {block.uri}{about}]"
        case EmbeddedResource():
            return resource_text(block.resource)


def resource_text(resource: TextResourceContents | BlobResourceContents) -> str:
    if isinstance(resource, TextResourceContents):
        return f"[resource {resource.uri}]\n{resource.text}"
    kind = resource.mime_type or "application/octet-stream"
    return f"[resource {resource.uri}: {kind}, {_size(resource.blob)}: not shown]"


def resource_texts(contents: Iterable[TextResourceContents | BlobResourceContents]) -> str:
    return "\n".join(map(resource_text, contents))


def _says(text: str, structured: object) -> bool:
    if structured == {"result": text}:
        return True  # how the Python SDK wraps a plain value
    try:
        return msgspec.json.decode(text) == structured
    except (msgspec.DecodeError, RecursionError):
        return False


def _size(encoded: str) -> str:
    size = len(encoded) * 3 // 4
    return f"{size / 1024:.1f} KiB" if size >= 1024 else f"{size} bytes"
