"""Images in the console: pasted or dropped into the message, in a real browser."""

import base64

import pytest
from playwright.sync_api import expect

from tests.console.browser import Console, OtherClient
from tests.harness.pictures import png

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(("way", "text"), [("paste", "what is it?"), ("drop", "")])
def test_an_image_is_sent_with_the_message(window: Console, other: OtherClient, way: str, text: str) -> None:
    session_id = other.start()
    window.open(session_id)
    encoded = base64.b64encode(png(30, 20, filler=500_000)).decode()
    window.page.evaluate(
        """([encoded, way]) => {
            const bytes = Uint8Array.from(atob(encoded), (letter) => letter.charCodeAt(0));
            const data = new DataTransfer();
            data.items.add(new File([bytes], "shot.png", { type: "image/png" }));
            const area = document.querySelector("#composer");
            const how = { bubbles: true, cancelable: true };
            area.dispatchEvent(way === "paste"
                ? new ClipboardEvent(way, { clipboardData: data, ...how })
                : new DragEvent(way, { dataTransfer: data, ...how }));
        }""",
        [encoded, way],
    )
    expect(window.page.get_by_label("Images")).to_contain_text("image: shot.png")
    window.say(text)
    expect(window.timeline.locator(".end")).to_have_count(1)
    expect(window.page.get_by_label("Images")).to_have_count(0)
    [said] = [event["payload"] for event in other.log(session_id) if event["type"] == "user_message"]
    assert said["text"] == text
    assert [(one["name"], one["width"]) for one in said["attachments"]] == [("shot.png", 30)]
    expect(window.timeline).to_contain_text("shot.png")
