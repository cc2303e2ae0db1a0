"""Images in tool results: read from files or brought by a server, stored once, and shown to the model."""

import base64
from pathlib import Path

import pytest
from mcp_types import CallToolResult, ImageContent, TextContent

from buddy.models.contract import ToolItem
from buddy.protocol.events import RunComplete, ToolResult
from buddy.tools.contract import ToolImage
from buddy.tools.mcp.results import output_of
from tests.harness.models import StepModel, answer, asks_for, call
from tests.harness.pictures import gif, jpeg, png, png_with_metadata, webp
from tests.harness.runtime import checked_host

CONTENTS = {"a.png": png(30, 20), "b.jpg": jpeg(30, 20), "c.gif": gif(30, 20), "d.webp": webp(30, 20)}


async def test_reading_an_image_shows_it_to_the_model(tmp_path: Path) -> None:
    for name, content in CONTENTS.items():
        (tmp_path / name).write_bytes(content)
    model = StepModel(asks_for(*(call("read_file", {"path": name}) for name in CONTENTS)), answer())
    async with checked_host(tmp_path, model) as host, host.client() as client:
        await client.start()
        await client.send("look")
        await client.wait_for(RunComplete)
        results = client.bodies(ToolResult)
        assert results[0].text == f"a.png: PNG image, 30x20 pixels, {len(CONTENTS['a.png'])} bytes"
        shown = [one for result in results for one in result.attachments]
        assert [(one.name, one.width, one.height) for one in shown] == [(name, 30, 20) for name in CONTENTS]
        sent = [base64.b64decode(model.images[1][one.blob]) for one in shown]
        assert sent == list(CONTENTS.values())
        items = [item for item in model.received[1] if isinstance(item, ToolItem)]
        assert [item.images[0].name for item in items] == list(CONTENTS)


async def test_where_a_photo_was_taken_is_not_shown(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(png_with_metadata(30, 20))
    model = StepModel(asks_for(call("read_file", {"path": "a.png"})), answer())
    async with checked_host(tmp_path, model) as host, host.client() as client:
        await client.start()
        await client.send("look")
        await client.wait_for(RunComplete)
        [shown] = client.bodies(ToolResult)[0].attachments
    assert base64.b64decode(model.images[1][shown.blob]) == png(30, 20)
    assert shown.size == len(png(30, 20))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (png(9000, 2), "is 9000x2 pixels; an image may have 8000 a side; its content is not shown"),
        (png(filler=21 * 1024 * 1024), "an image may have 20 MiB; its content is not shown"),
        (png()[:18], "is a damaged image"),
    ],
)
async def test_an_image_that_is_too_large_is_only_named(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / "x.png").write_bytes(content)
    model = StepModel(asks_for(call("read_file", {"path": "x.png"})), answer(), answer())
    async with checked_host(tmp_path, model) as host, host.client() as client:
        await client.start()
        await client.send("look")
        await client.wait_for(RunComplete)
        [result] = client.bodies(ToolResult)
        assert said in result.text
        assert result.attachments == ()
        await client.send("go on")
        await client.wait_for(RunComplete)


def test_images_of_a_server_are_shown_and_what_is_none_is_named() -> None:
    good = ImageContent(data=base64.b64encode(png()).decode(), mime_type="image/png")
    bad = ImageContent(data="####", mime_type="image/png")
    drawn = ImageContent(data=base64.b64encode(b"<svg/>").decode(), mime_type="image/svg+xml")
    output = output_of(CallToolResult(content=[TextContent(text="Look:"), good, bad, drawn]))
    assert output.images == (ToolImage(png()),)
    assert output.text.splitlines()[0] == "Look:"
    assert output.text.count("not shown") == 2
