"""The console when things go wrong: lost connections, hostile text, foreign pages, people without a mouse."""

import contextlib
import signal
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from buddy.errors import ProtocolError
from tests.console.browser import Console, OtherClient, axe_source, console
from tests.harness.daemon import Daemon
from tests.harness.home import Home
from tests.harness.processes import wait_until
from tests.harness.scripts import section, shell
from tests.harness.terminal import Tmux

pytestmark = pytest.mark.slow


def words_shown(page: Page) -> int:
    return page.locator(".timeline .reply").inner_text().count("drop")


def is_over(other: OtherClient, session_id: str) -> bool:
    return any(event["type"] == "run_complete" for event in other.log(session_id))


# --- lost connections -------------------------------------------------------------------------------------------------


def test_nothing_is_lost_or_shown_twice_while_the_network_is_away(window: Console, other: OtherClient) -> None:
    session_id = other.start()
    window.open(session_id)
    window.say("drip")
    expect(window.timeline.locator(".reply")).to_contain_text("drop drop")
    for _ in range(3):
        window.context.set_offline(True)
        expect(window.page.locator(".lost")).to_be_visible()
        window.page.wait_for_timeout(300)
        window.context.set_offline(False)
        expect(window.page.locator(".lost")).to_have_count(0)
    expect(window.timeline.locator(".end")).to_contain_text("Done")
    assert words_shown(window.page) == 300
    assert window.entries() == ["user", "reply", "end"]


def test_the_daemon_can_be_killed_under_an_open_page(browser: Browser, daemon: Daemon, other: OtherClient) -> None:
    port = daemon.port()
    with console(browser, daemon) as window:
        window.log_in()
        session_id = other.start("make it")
        window.open(session_id)
        expect(window.page.locator(".approval")).to_be_visible()
        daemon.signal(signal.SIGKILL)
        daemon.wait()
        expect(window.page.locator(".lost")).to_be_visible()
        daemon.flags = ["--listen", f"127.0.0.1:{port}"]
        daemon.start()
        expect(window.page.locator(".lost")).to_have_count(0)
        window.page.get_by_role("button", name="Approve", exact=True).click()
        expect(window.timeline.locator(".end")).to_contain_text("Done")
        assert (daemon.workspace / "made.txt").read_text() == "made\n"


def test_catching_up_does_not_move_what_somebody_reads(browser: Browser, daemon: Daemon, other: OtherClient) -> None:
    with console(browser, daemon) as window:
        window.log_in()
        session_id = other.start()
        for number in range(25):
            other.send(session_id, f"say {number}")
            wait_until(lambda: is_idle(other, session_id), "the run to end")
        window.open(session_id)
        expect(window.timeline.locator(".user").last).to_contain_text("say 24")
        place = window.timeline
        place.evaluate("place => { place.scrollTop = place.scrollHeight / 3 }")
        window.page.wait_for_timeout(300)
        first = place.evaluate("place => place.scrollTop")
        other.send(session_id, "say more")
        wait_until(lambda: is_idle(other, session_id), "the run to end")
        window.page.wait_for_timeout(500)
        assert abs(place.evaluate("place => place.scrollTop") - first) < 2
        window.page.locator(".to-end").click()
        expect(window.timeline.locator(".user").last).to_contain_text("say more")


def is_idle(other: OtherClient, session_id: str) -> bool:
    return other.ask("get_snapshot", {}, session_id)["state"] == "idle"


# --- several clients --------------------------------------------------------------------------------------------------


def test_an_approval_that_three_clients_race_for_is_decided_once(browser: Browser, daemon: Daemon) -> None:
    """Two browsers and a program answer the same questions at the same moment, again and again."""
    other = OtherClient(daemon)
    session_id = other.start()
    with console(browser, daemon) as first, console(browser, daemon) as second:
        for window in (first, second):
            window.log_in()
            window.open(session_id)
        for number in range(5):
            other.send(session_id, f"make {number}")
            for window in (first, second):
                expect(window.page.locator(".approval button.primary")).to_be_enabled()
            [asked] = other.ask("list_approvals", {})["approvals"]
            press = "setTimeout(() => document.querySelector('.approval button.primary')?.click(), 30)"
            first.page.evaluate(press)
            second.page.evaluate(press)
            answer = {key: asked[key] for key in ("sessionId", "runId", "approvalId")}
            with contextlib.suppress(ProtocolError):
                other.ask("submit_approval", {**answer, "decision": "approve"}, session_id)
            wait_until(lambda: is_idle(other, session_id), "the run to end")
            for window in (first, second):
                expect(window.page.locator(".approval")).to_have_count(0)
    decided = [event for event in other.log(session_id) if event["type"] == "approval_received"]
    assert len(decided) == 5
    assert (daemon.workspace / "made.txt").read_text() == "made\n" * 5
    other.close()


def test_a_terminal_and_two_browsers_share_a_session(browser: Browser, daemon: Daemon, other: OtherClient) -> None:
    session_id = other.start()
    home = Home(daemon.folder / "person")
    home.env = {**daemon.command_environment(), "TMUX_TMPDIR": str(home.directory)}
    with Tmux(home, "resume", session_id) as terminal:
        terminal.wait_for("resumed session")
        with console(browser, daemon) as first, console(browser, daemon) as second:
            for window in (first, second):
                window.log_in()
                window.open(session_id)
            terminal.enter("make it")
            terminal.wait_for("made.txt")
            expect(first.page.locator(".approval")).to_be_visible()
            second.page.get_by_role("button", name="Approve", exact=True).click()
            terminal.wait_for("approved by console")
            for window in (first, second):
                expect(window.timeline.locator(".end")).to_contain_text("Done")
                assert window.entries() == ["user", "reply", "call", "reply", "end"]


# --- hostile text -----------------------------------------------------------------------------------------------------

HOSTILE = """<img src=x onerror=alert(1)><script>alert(2)</script>

[click](javascript:alert(3)) ![picture](http://127.0.0.1:1/x.png) <svg onload=alert(4)></svg>

right-to-left \u202e gnp.exe and zero\u200bwidth, <a href="//evil">link</a>, [ok](https://example.com/a)
"""


def test_a_hostile_transcript_changes_nothing_on_the_page(browser: Browser, tmp_path: Path) -> None:
    noisy = shell("yes $(printf '%099d' 0) | head -100000; printf '\\033]0;owned\\007\\033[2J'")
    script = [section("^say", {"text": HOSTILE}), section("^flood", noisy, {"text": HOSTILE * 200})]
    with Daemon(tmp_path, script=script, web=True) as daemon:
        other = OtherClient(daemon)
        session_id = other.start("say", approvalPolicy="all")
        with console(browser, daemon) as window:
            asked: list[str] = []
            window.page.on("dialog", lambda dialog: asked.append(dialog.message))
            window.page.on("request", lambda request: asked.append(request.url) if "x.png" in request.url else None)
            window.log_in()
            window.open(session_id)
            expect(window.timeline.locator(".end")).to_be_visible()
            window.say("flood")
            expect(window.timeline.locator(".end")).to_have_count(2)
            body = window.timeline
            assert body.locator("img, script, iframe").count() == 0
            assert body.locator("svg").count() == body.locator("svg.icon").count()
            links = body.locator(".markdown a").evaluate_all("links => links.map(link => link.href)")
            assert set(links) == {"https://example.com/a"}
            assert "\u202e" not in body.inner_text()
            assert "\\u202e" in body.inner_text()
            assert asked == []
            expect(window.page).to_have_title("Buddy")
            window.page.locator(".call-head").click()
            window.page.get_by_role("button", name="Show full output").first.click()
            expect(body.locator(".output.tall").last).to_contain_text("\\x1b]0;owned")
        other.close()


# --- who may do what --------------------------------------------------------------------------------------------------


def test_a_link_works_once(browser: Browser, daemon: Daemon) -> None:
    with console(browser, daemon) as window, console(browser, daemon) as thief:
        link = window.link()
        window.page.goto(link)
        expect(window.page.locator(".brand")).to_be_visible()
        assert "token" not in window.page.url
        thief.page.goto(link)
        expect(thief.page.locator(".signed-out")).to_be_visible()
        thief.page.goto(thief.link())
        expect(thief.page.locator(".brand")).to_be_visible()
        assert window.page.evaluate("document.cookie") == ""


def test_an_observer_sees_one_session_and_can_do_nothing(browser: Browser, daemon: Daemon, other: OtherClient) -> None:
    shared, private = other.start("make it"), other.start("say secret")
    token = other.ask("mint_token", {"role": "observer", "once": True}, shared)["attachToken"]
    with console(browser, daemon) as window:
        window.page.goto(f"{window.address}/#token={token}")
        expect(window.page.locator(".row")).to_have_count(1)
        expect(window.page.locator(".approval")).to_be_visible()
        expect(window.page.locator(".approval button, #composer, .menu")).to_have_count(0)
        window.page.keyboard.press("n")
        window.page.keyboard.press("?")
        expect(window.page.get_by_role("dialog")).to_contain_text("this help")
        window.page.goto(f"{window.address}/session/{private}")
        expect(window.page.get_by_role("alert")).to_be_visible()


# --- without a mouse, and with a screen reader ------------------------------------------------------------------------


def test_start_approve_and_fork_with_the_keyboard_alone(window: Console, daemon: Daemon) -> None:
    page = window.page
    page.keyboard.press("n")
    page.get_by_label("Directory").fill(str(daemon.workspace))
    page.keyboard.press("Tab")
    page.keyboard.type("make it")
    page.select_option("[name=sandbox]", "host")
    page.get_by_role("button", name="Start", exact=True).press("Enter")
    expect(page.locator(".approval")).to_be_visible()
    page.keyboard.press("a")
    page.wait_for_timeout(600)
    page.keyboard.press("Enter")
    expect(window.timeline.locator(".end")).to_contain_text("Done")
    before = page.url
    page.keyboard.press("t")
    page.get_by_label("Point in the session").press("Home")
    page.get_by_label("Point in the session").press("PageUp")
    page.get_by_role("button", name="Fork from here").press("Enter")
    expect(page).not_to_have_url(before)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_view_is_accessible(browser: Browser, daemon: Daemon, other: OtherClient, scheme: str) -> None:
    done, waiting = other.start("write it", approvalPolicy="all"), other.start("make it")
    with console(browser, daemon, color_scheme=scheme, bypass_csp=False) as window:
        window.log_in()
        page, found = window.page, list[str]()

        def look(name: str) -> None:
            page.evaluate(axe_source())
            for problem in page.evaluate("axe.run(document)")["violations"]:
                found.append(f"{name}: {problem['id']} {[node['target'] for node in problem['nodes']][:3]}")

        look("inbox")
        window.open(done)
        expect(window.timeline.locator(".end")).to_be_visible()
        look("session")
        page.get_by_role("tab", name="Changes").click()
        expect(page.locator(".changes")).to_be_visible()
        look("changes")
        page.get_by_role("button", name="Time travel").click()
        expect(page.locator(".travel")).to_be_visible()
        look("time travel")
        window.open(waiting)
        expect(page.locator(".approval")).to_be_visible()
        look("approval")
        page.get_by_role("link", name="1 waiting").click()
        expect(page.locator(".approvals-list .approval")).to_be_visible()
        look("approvals")
        page.keyboard.press("?")
        expect(page.locator(".keys")).to_be_visible()
        look("help")
        page.keyboard.press("Escape")
        page.set_viewport_size({"width": 390, "height": 844})
        look("phone")
        assert found == []


def test_a_phone_shows_one_thing_at_a_time(browser: Browser, daemon: Daemon, other: OtherClient) -> None:
    session_id = other.start("make it")
    with console(browser, daemon) as window:
        window.page.set_viewport_size({"width": 390, "height": 844})
        window.log_in()
        expect(window.page.locator(".main")).to_be_hidden()
        window.open(session_id)
        expect(window.page.locator(".sidebar")).to_be_hidden()
        wide = window.page.evaluate("document.documentElement.scrollWidth")
        assert wide <= 390
        window.page.get_by_label("Back to the list").click()
        expect(window.page.locator(".rows")).to_be_visible()


OVERTAKEN = """async () => {
  const { SessionLog } = await import("/session_log.js");
  const asked = [];
  let follower;
  const connection = {
    follow: (_, one) => asked.push((follower = one).cursor()),
    request: async () => ({ events: [] }),
    unfollow: () => {},
  };
  const payload = { code: "NOTE", message: "" };
  const event = (seq) => ({ seq, ts: seq, sessionId: "sess_1", type: "warning", payload });
  const log = new SessionLog(connection, "sess_1", 0);
  follower.onEvent(event(5));
  follower.onAttached({ replay: { gap: false, fromSeq: 1 } });
  for (const seq of [1, 2, 20, 21]) follower.onEvent(event(seq));
  follower.onAttached({ replay: { gap: true, fromSeq: 22 } });
  for (const seq of [22, 23]) follower.onEvent(event(seq));
  return { asked, seqs: log.events.map((one) => one.seq) };
}"""


def test_a_log_that_a_prune_overtook_is_attached_again(window: Console) -> None:
    """Events 3 to 19 were pruned before they were sent."""
    assert window.page.evaluate(OVERTAKEN) == {"asked": [0, 2], "seqs": [22, 23]}
