"""Images over the protocol: brought in parts, checked, named by a message, and kept with the session."""

import base64
import hashlib
from pathlib import Path

import pytest

from buddy.errors import ProtocolError
from buddy.models.contract import UserItem
from buddy.protocol.blob_requests import UploadBlob, UploadBlobReply
from buddy.protocol.events import RunComplete, UserMessage
from buddy.protocol.queue_requests import QueueMessage, QueueMessageReply
from buddy.protocol.requests import ReadBlob, ReadBlobReply, SendUserMessage
from buddy.protocol.shapes import Attachment
from tests.harness.models import StepModel, answer
from tests.harness.pictures import gif, png, png_with_metadata
from tests.harness.runtime import RuntimeClient, checked_host, ids

IMAGE = png(640, 480, filler=1000)


async def upload(client: RuntimeClient, content: bytes, part: int = 400) -> str:
    name: str | None = None
    for offset in range(0, len(content), part):
        piece = base64.b64encode(content[offset : offset + part]).decode()
        request = UploadBlob(piece, offset, offset + part >= len(content), name)
        reply = await client.api.request(request, UploadBlobReply, client.session_id)
        assert reply.size == min(len(content), offset + part)
        name = reply.blob
    assert name is not None
    return name


async def test_an_image_is_brought_in_parts_and_shown_with_its_message(tmp_path: Path) -> None:
    model = StepModel(answer(), answer(), answer())
    async with checked_host(tmp_path, model) as host, host.client() as client:
        await client.start()
        blob = await upload(client, IMAGE)
        given = Attachment(blob, "image/gif", "shot.png")
        await client.api.send(SendUserMessage(client.session_id, ids("msg"), "look", attachments=(given,)))
        await client.wait_for(RunComplete)
        recorded = Attachment(blob, "image/png", "shot.png", 640, 480, len(IMAGE))
        assert client.bodies(UserMessage)[0].attachments == (recorded,)
        [said] = [item for item in model.received[0] if isinstance(item, UserItem)]
        assert [(image.blob, image.media_type, image.width) for image in said.images] == [(blob, "image/png", 640)]
        assert {name: base64.b64decode(content) for name, content in model.images[0].items()} == {blob: IMAGE}
        # It belongs to the session now, so that it can be read and named again.
        reply = await client.api.request(ReadBlob(blob, 0, 9999, "base64"), ReadBlobReply, client.session_id)
        assert base64.b64decode(reply.data or "") == IMAGE
        queued = QueueMessage(ids("msg"), "again", attachments=(Attachment(blob),))
        await client.api.request(queued, QueueMessageReply, client.session_id)
        await client.wait_for(RunComplete)
        assert client.bodies(UserMessage)[1].attachments[0].width == 640
        # A message may be nothing but an image; one with neither is none.
        await client.api.send(SendUserMessage(client.session_id, ids("msg"), "", attachments=(given,)))
        await client.wait_for(RunComplete)
        for text in ("", " "):
            with pytest.raises(ProtocolError, match="text is empty, and there is no image"):
                await client.api.send(SendUserMessage(client.session_id, ids("msg"), text))


async def test_where_a_photo_was_taken_is_neither_stored_nor_shown(tmp_path: Path) -> None:
    model = StepModel(answer())
    async with checked_host(tmp_path, model) as host, host.client() as client:
        await client.start()
        blob = await upload(client, png_with_metadata())
        await client.api.send(SendUserMessage(client.session_id, ids("msg"), "", attachments=(Attachment(blob),)))
        await client.wait_for(RunComplete)
        assert blob == hashlib.sha256(png()).hexdigest()
        assert client.bodies(UserMessage)[0].attachments[0].size == len(png())
    assert {name: base64.b64decode(content) for name, content in model.images[0].items()} == {blob: png()}


@pytest.mark.parametrize(
    ("request_", "problem"),
    [
        (UploadBlob("####"), "not base64"),
        (UploadBlob(base64.b64encode(b"hello").decode(), last=True), "is not an image"),
        (UploadBlob(base64.b64encode(png(9000, 1)).decode(), last=True), "9000x1 pixels"),
        (UploadBlob(base64.b64encode(gif()).decode(), 5, last=True), "offset is 5, but 0 bytes have arrived"),
        (UploadBlob(base64.b64encode(gif()).decode(), blob="up_1"), "unknown upload 'up_1'"),
    ],
)
async def test_what_is_not_an_image_is_refused(tmp_path: Path, request_: UploadBlob, problem: str) -> None:
    async with checked_host(tmp_path, StepModel(answer())) as host, host.client() as client:
        await client.start()
        with pytest.raises(ProtocolError, match=problem) as refused:
            await client.api.request(request_, UploadBlobReply, client.session_id)
        assert refused.value.code == "INVALID_REQUEST"
        await client.send("go on")
        await client.wait_for(RunComplete)


async def test_an_image_of_another_session_is_unknown(tmp_path: Path) -> None:
    async with checked_host(tmp_path, StepModel(answer())) as host, host.client() as client:
        await client.start()
        blob = await upload(client, gif())
        other = await client.start()
        for wanted in (blob, "0" * 64, "../x"):
            message = SendUserMessage(other, ids("msg"), "look", attachments=(Attachment(wanted),))
            with pytest.raises(ProtocolError, match="bring it with upload_blob first"):
                await client.api.send(message)


async def test_a_message_has_a_limited_number_of_images(tmp_path: Path) -> None:
    async with checked_host(tmp_path, StepModel(answer())) as host, host.client() as client:
        await client.start()
        blob = await upload(client, gif())
        message = SendUserMessage(client.session_id, ids("msg"), "look", attachments=(Attachment(blob),) * 21)
        with pytest.raises(ProtocolError, match="a message may have 20 images, not 21"):
            await client.api.send(message)


@pytest.mark.slow
async def test_an_upload_that_never_ends_is_bounded(tmp_path: Path) -> None:
    part = base64.b64encode(bytes(600_000)).decode()
    async with checked_host(tmp_path, StepModel(answer())) as host, host.client() as client:
        await client.start()
        reply = await client.api.request(UploadBlob(part), UploadBlobReply, client.session_id)
        with pytest.raises(ProtocolError, match="an image may have 20 MiB"):
            for number in range(1, 40):
                request = UploadBlob(part, number * 600_000, blob=reply.blob)
                await client.api.request(request, UploadBlobReply, client.session_id)
