"""The console in a browser: what a person sees and does, against a real daemon with a scripted model."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.console.browser import Console, OtherClient, console
from tests.harness.daemon import Daemon
from tests.harness.scripts import section, shell

pytestmark = pytest.mark.slow

FIRST_PAGE = 3000


def row(session_id: str) -> str:
    return f'.row:has([href="/session/{session_id}"])'


# --- the list ---------------------------------------------------------------------------------------------------------


def test_the_list_shows_who_waits_first_and_follows_live(window: Console, other: OtherClient) -> None:
    quiet = other.start("say hello")
    waiting = other.start("make it")
    page = window.page
    expect(page.locator(".rows section").first.locator("h2")).to_contain_text("Needs you")
    expect(page.locator(row(waiting))).to_contain_text("needs you")
    expect(page.locator(row(quiet))).to_contain_text("say hello")
    expect(page).to_have_title(re.compile("Needs you"))
    expect(page.locator("#favicon")).to_have_attribute("href", "/favicon-waiting.svg")


def test_sessions_are_found_renamed_archived_and_deleted(window: Console, other: OtherClient) -> None:
    first, second = other.start("say one"), other.start("say two")
    page = window.page
    page.fill("#search", "two")
    expect(page.locator(row(first))).to_have_count(0)
    expect(page.locator(row(second))).to_be_visible()
    page.fill("#search", "")

    page.on("dialog", lambda dialog: dialog.accept("The login page" if dialog.type == "prompt" else ""))
    page.locator(f"{row(first)} summary").click()
    page.get_by_role("button", name="Rename…").locator("visible=true").click()
    expect(page.locator(row(first))).to_contain_text("The login page")

    page.locator(f"{row(second)} summary").click()
    page.get_by_role("button", name="Archive", exact=True).locator("visible=true").click()
    expect(page.locator(row(second))).to_have_count(0)
    page.get_by_label("Archived").check()
    expect(page.locator(row(second))).to_be_visible()
    page.get_by_label("Archived").uncheck()

    page.locator(f"{row(first)} summary").click()
    page.get_by_role("button", name="Delete…").locator("visible=true").click()
    expect(page.locator(row(first))).to_have_count(0)


def test_a_session_is_started_with_its_options(window: Console, daemon: Daemon, other: OtherClient) -> None:
    page = window.page
    page.get_by_role("button", name="New", exact=True).click()
    page.get_by_label("Directory").fill(str(daemon.workspace))
    page.get_by_label("What should it do?").fill("make it")
    page.select_option("[name=sandbox]", "host")
    page.select_option("[name=policy]", "ask")
    page.get_by_label("Max turns").fill("7")
    page.get_by_role("button", name="Start", exact=True).click()
    expect(page.locator(".approval")).to_be_visible()
    expect(page.get_by_title("Approval policy")).to_have_text("asks")
    session_id = page.url.rsplit("/", 1)[1]
    started = other.log(session_id)[0]["payload"]["options"]
    assert (started["approvalPolicy"], started["sandbox"], started["budget"]) == ("ask", "host", {"maxTurns": 7})
    assert any(
        event["type"] == "user_message" and event["payload"]["by"] == "console" for event in other.log(session_id)
    )


def test_a_directory_that_is_typed_stays_when_the_list_changes(window: Console, other: OtherClient) -> None:
    window.page.get_by_role("button", name="New", exact=True).click()
    window.page.get_by_label("Directory").fill("/somewhere")
    other.start()
    expect(window.page.locator(".row-link")).to_have_count(1)
    expect(window.page.get_by_label("Directory")).to_have_value("/somewhere")


def test_what_cannot_be_started_stays_in_the_dialog(window: Console, daemon: Daemon, other: OtherClient) -> None:
    other.start()
    page = window.page
    expect(page.locator(".row-link")).to_have_count(1)
    page.keyboard.press("n")
    expect(page.get_by_label("What should it do?")).to_be_focused()
    page.keyboard.type("say it")
    page.get_by_label("Directory").fill("/nonexistent")
    start = page.get_by_role("button", name="Start", exact=True)
    start.click()
    expect(page.get_by_role("alert")).to_have_text("the folder /nonexistent does not exist on this machine")
    page.get_by_label("Directory").fill(str(daemon.workspace))
    page.get_by_label("Max cost").fill("1")
    start.click()
    expect(page.get_by_role("alert")).to_contain_text("the cost limit can't be enforced: the price of")
    expect(page.get_by_role("alert")).to_contain_text("set input_price and output_price")
    expect(page.locator(".toast")).to_have_count(0)
    assert len(other.ask("list_sessions", {})["sessions"]) == 1
    page.get_by_label("Max cost").fill("")
    start.click()
    expect(window.timeline.locator(".user")).to_contain_text("say it")
    expect(page.locator(".dialog")).to_have_count(0)
    expect(page.locator(".row-link")).to_have_count(2)


def test_a_new_session_without_a_known_directory_begins_there(window: Console) -> None:
    window.page.keyboard.press("n")
    expect(window.page.get_by_label("Directory")).to_be_focused()


# --- a session --------------------------------------------------------------------------------------------------------


def test_a_reply_is_rendered_and_the_run_ends(window: Console, other: OtherClient) -> None:
    window.open(other.start())
    window.say("say it")
    expect(window.timeline.locator(".markdown strong")).to_have_text("Bold")
    expect(window.timeline.locator(".markdown code")).to_have_text("code")
    expect(window.timeline.locator(".end")).to_contain_text("Done")
    window.page.get_by_role("button", name="Reasoning").click()
    expect(window.timeline.locator(".thinking")).to_contain_text("let me think")
    assert window.entries() == ["user", "reply", "end"]


def test_a_progress_bar_is_shown_line_by_line(window: Console, other: OtherClient) -> None:
    window.open(other.start("load it", approvalPolicy="all"))
    expect(window.timeline.locator(".call .output")).to_contain_text("1%\n2%\n3%")
    window.timeline.get_by_role("button", name="more lines").click()
    expect(window.timeline.locator(".call .output")).to_contain_text("19%\n20%")


def test_an_approval_shows_what_runs_and_is_decided_once(
    window: Console, browser: Browser, daemon: Daemon, other: OtherClient
) -> None:
    session_id = other.start("make it")
    window.open(session_id)
    asked = window.page.locator(".approval")
    expect(asked.locator(".asked")).to_have_text("echo made >> made.txt")
    expect(asked).to_contain_text(str(daemon.workspace))
    with console(browser, daemon) as second:
        second.log_in()
        second.open(session_id)
        expect(second.page.locator(".approval")).to_be_visible()
        asked.get_by_role("button", name="Approve", exact=True).click()
        expect(second.page.locator(".decision")).to_contain_text("Approved by")
    expect(window.timeline.locator(".end")).to_contain_text("Done")
    assert (daemon.workspace / "made.txt").read_text() == "made\n"
    decisions = [event["payload"] for event in other.log(session_id) if event["type"] == "approval_received"]
    assert [(one["decision"], one["by"]) for one in decisions] == [("approve", "console")]


def test_a_denial_with_a_comment_reaches_the_model(window: Console, daemon: Daemon, other: OtherClient) -> None:
    session_id = other.start("make it")
    window.open(session_id)
    window.page.get_by_label("Comment").fill("use another name")
    window.page.get_by_role("button", name="Deny and tell it").click()
    expect(window.timeline.locator(".decision")).to_contain_text("use another name")
    expect(window.timeline.locator(".end")).to_be_visible()
    assert not (daemon.workspace / "made.txt").exists()


def test_a_stray_key_decides_nothing(window: Console, daemon: Daemon, other: OtherClient) -> None:
    session_id = other.start("make it")
    window.open(session_id)
    expect(window.page.locator(".approval")).to_be_visible()
    window.page.locator(".session-head h1").click()
    for key in ("a", "Enter", "d", "Space", "a", "Space"):
        window.page.keyboard.press(key)
    expect(window.page.locator(".approval")).to_be_visible()
    assert not [event for event in other.log(session_id) if event["type"] == "approval_received"]
    window.page.keyboard.press("a")
    window.page.wait_for_timeout(600)
    window.page.keyboard.press("Enter")
    expect(window.timeline.locator(".end")).to_contain_text("Done")
    assert (daemon.workspace / "made.txt").exists()


def test_a_long_command_must_be_read_to_its_end(browser: Browser, tmp_path: Path) -> None:
    command = "\n".join(f"echo line {number}" for number in range(200)) + "\nrm -rf build"
    with Daemon(tmp_path, script=[section("^go", shell(command))], web=True) as daemon:
        other = OtherClient(daemon)
        session_id = other.start("go")
        with console(browser, daemon) as window:
            window.log_in()
            window.open(session_id)
            approve = window.page.get_by_role("button", name="Approve", exact=True)
            expect(approve).to_be_disabled()
            window.page.locator(".asked").evaluate("place => { place.scrollTop = place.scrollHeight }")
            expect(approve).to_be_enabled()
            expect(window.page.locator(".asked-line").last).to_have_text("rm -rf build")
        other.close()


def test_messages_queue_steer_and_stop(window: Console, other: OtherClient) -> None:
    session_id = other.start("wait for it", approvalPolicy="all")
    window.open(session_id)
    expect(window.timeline.locator(".call .output")).to_contain_text("started")
    window.say("say later")
    expect(window.page.locator(".queue")).to_contain_text("say later")
    window.page.get_by_role("button", name="Stop").click()
    expect(window.timeline.locator(".end").first).to_contain_text("Cancelled")


# --- time travel ------------------------------------------------------------------------------------------------------


def test_the_past_is_shown_as_it_was_and_can_be_forked(window: Console, other: OtherClient) -> None:
    session_id = other.start("write it", approvalPolicy="all")
    window.open(session_id)
    expect(window.timeline.locator(".end")).to_be_visible()
    log = other.log(session_id)
    claimed = next(event["seq"] for event in log if event["type"] == "tool_claimed")
    window.page.keyboard.press("Escape")
    window.page.locator(".session-head h1").click()
    window.page.keyboard.press("t")
    slider = window.page.get_by_label("Point in the session")
    slider.fill(str(claimed))
    expect(window.page.locator(".as-of")).to_have_text(f"As of event {claimed}")
    expect(window.timeline.locator(".end")).to_have_count(0)
    expect(window.page.locator(".panel")).to_contain_text("Open calls")
    expect(window.page.locator("#composer")).to_have_count(0)
    assert window.entries() == ["user", "call"]
    expect(window.page).to_have_url(re.compile(f"#{claimed}$"))

    window.page.reload()
    expect(window.page.locator(".as-of")).to_have_text(f"As of event {claimed}")
    window.page.get_by_label("Speed").select_option("20")
    window.page.get_by_role("button", name="Play").click()
    expect(window.timeline.locator(".end")).to_be_visible()
    slider.fill("3")
    window.page.get_by_role("button", name="Fork from here").click()
    expect(window.page).not_to_have_url(re.compile(session_id))


def test_a_link_to_a_point_opens_there(window: Console, other: OtherClient) -> None:
    session_id = other.start("say it")
    window.open(session_id)
    expect(window.timeline.locator(".end")).to_be_visible()
    reply = other.log(session_id)
    seq = next(event["seq"] for event in reply if event["type"] == "run_started")
    window.page.goto(f"{window.address}/session/{session_id}#{seq}")
    expect(window.page.locator(".as-of")).to_have_text(f"As of event {seq}")


# --- changes ----------------------------------------------------------------------------------------------------------


def test_changes_are_shown_and_comments_become_a_message(window: Console, other: OtherClient) -> None:
    session_id = other.start("write it", approvalPolicy="all")
    window.open(session_id)
    expect(window.timeline.locator(".end")).to_be_visible()
    window.page.get_by_role("tab", name="Changes").click()
    file = window.page.locator(".file")
    expect(file.locator("summary")).to_contain_text("b.txt")
    expect(file.locator(".diff-line.add")).to_have_count(2)
    run_id = next(event["runId"] for event in other.log(session_id) if event["type"] == "run_started")
    window.page.get_by_label("Which changes").select_option(run_id)
    window.page.get_by_label("Which turn").select_option("2")
    expect(window.page.locator(".changes")).to_contain_text("No files changed")
    window.page.get_by_label("Which turn").select_option("1")
    expect(file.locator(".diff-line.add")).to_have_count(2)
    window.page.on("dialog", lambda dialog: dialog.accept("why two?"))
    file.get_by_role("button", name="Comment on line 2").first.click()
    expect(window.page.locator(".line-comment").first).to_have_text("why two?")
    window.page.get_by_role("button", name="Send 1 comment").click()
    expect(window.timeline.locator(".user").last).to_contain_text("b.txt:2: why two?")


def test_changes_are_undone_and_redone(window: Console, other: OtherClient) -> None:
    session_id = other.start("write it", approvalPolicy="all")
    window.open(session_id)
    expect(window.timeline.locator(".end")).to_be_visible()
    window.page.get_by_role("tab", name="Changes").click()
    window.page.on("dialog", lambda dialog: dialog.accept())
    window.page.get_by_role("button", name="Undo these changes").click()
    expect(window.page.locator(".changes")).to_contain_text("No files changed")
    assert [event["payload"]["by"] for event in other.log(session_id) if event["type"] == "files_restored"] == [
        "console"
    ]
    window.page.get_by_role("button", name="Redo").click()
    expect(window.page.locator(".file summary")).to_contain_text("b.txt")


# --- approvals of all sessions ----------------------------------------------------------------------------------------


def test_one_queue_has_all_approvals_and_says_who_decided(window: Console, other: OtherClient) -> None:
    first, second = other.start("make one"), other.start("make two")
    page = window.page
    page.get_by_role("link", name="2 waiting").click()
    expect(page.locator(".approval")).to_have_count(2)
    [asked] = [one for one in other.ask("list_approvals", {})["approvals"] if one["sessionId"] == first]
    answer = {"sessionId": first, "runId": asked["runId"], "approvalId": asked["approvalId"], "decision": "deny"}
    other.ask("submit_approval", answer, first)
    expect(page.locator(".approval")).to_have_count(1)
    expect(page.locator(".decided")).to_contain_text("Denied by cli")
    page.get_by_role("button", name="Approve", exact=True).click()
    expect(page.locator(".approvals-list")).to_contain_text("Nothing needs your approval")
    assert any(event["type"] == "run_complete" for event in other.log(second))
