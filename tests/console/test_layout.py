"""Where things are on the page, and how large: what the browser says of its own boxes."""

from typing import Any

import pytest
from playwright.sync_api import Locator, expect

from tests.console.browser import Console, OtherClient

pytestmark = pytest.mark.slow

Box = dict[str, float]


def boxes(found: Locator) -> list[Box]:
    boxes: Any = found.evaluate_all("found => found.map(one => one.getBoundingClientRect().toJSON())")
    return boxes


def test_marks_are_thin_and_the_head_of_a_diff_has_no_frame(window: Console, other: OtherClient) -> None:
    session_id = other.start("write it")
    window.open(session_id)
    window.page.get_by_role("button", name="Approve", exact=True).click()
    expect(window.timeline.locator(".end")).to_be_visible()
    window.page.get_by_role("button", name="Time travel").click()
    expect(window.page.locator(".mark.approval")).to_have_count(1)
    assert all(box["width"] <= 3 and box["height"] <= 10 for box in boxes(window.page.locator(".mark")))
    window.page.get_by_role("tab", name="Changes").click()
    head = window.page.locator(".diff-line.file").first
    expect(head).to_have_text("--- /dev/null")
    expect(head).to_have_css("border-top-width", "0px")


def test_the_result_of_a_check_wraps(window: Console, other: OtherClient) -> None:
    session_id = other.start()
    window.open(session_id)
    checks = [{"id": "the tests pass " * 20, "check": "true"}]
    message = {"sessionId": session_id, "clientMessageId": "msg_check", "text": "say it", "acceptanceCriteria": checks}
    other.ask("send_user_message", message, session_id)
    expect(window.timeline.locator(".end")).to_be_visible()
    [entry, result] = boxes(window.timeline.locator(".entry.check, .entry.check p"))
    assert result["right"] <= entry["right"]


def test_the_panel_names_some_files_and_counts_the_others(window: Console, other: OtherClient) -> None:
    window.open(other.start("touch many", approvalPolicy="all"))
    files = window.page.locator(".panel section").filter(has_text="32 files changed")
    expect(files.locator("li")).to_have_count(30)
    expect(files).to_contain_text("and 2 more in Changes")


def test_times_and_the_point_in_the_session_are_legible_in_every_width(window: Console, other: OtherClient) -> None:
    window.open(other.start("say it"))
    expect(window.timeline.locator(".end")).to_be_visible()
    window.page.get_by_role("button", name="Time travel").click()
    expect(window.page.locator(".travel-place")).to_contain_text("turn 1")
    for width in (1160, 1300, 1440, 1580, 1920):
        window.page.set_viewport_size({"width": width, "height": 900})
        for entry in window.timeline.locator(".entry").all():
            entry.hover()
            [page, time] = boxes(window.timeline.or_(entry.locator(".anchor")))
            assert page["left"] <= time["left"] < time["right"] <= page["right"], width
            assert page["top"] <= time["top"], width
        place = window.page.locator(".travel-place")
        assert place.evaluate("place => place.scrollWidth <= place.clientWidth"), width
