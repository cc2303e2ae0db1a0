"""Requests that bring the content of a blob, such as an image, before the message that names it."""

from buddy.protocol.shapes import Count, Shape, Text


class UploadBlob(Shape, frozen=True):
    """A part of a content, in base64. The reply to the first part names the upload: the parts after it give that name
    as `blob`, and `offset` says where they begin. With `last` the content is complete: the reply has its blob id."""

    data: str
    offset: Count = 0
    last: bool = False
    blob: Text | None = None


class UploadBlobReply(Shape, frozen=True):
    """`size` is what arrived so far."""

    blob: str
    size: Count
