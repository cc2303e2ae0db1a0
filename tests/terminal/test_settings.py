"""How configuration, environment and other versions change the screen."""

import asyncio
import threading
from pathlib import Path

import pytest

from buddy.protocol.codes import VERSION as PROTOCOL
from buddy.protocol.envelopes import Response, encode, parse_request
from buddy.protocol.requests import HelloReply
from buddy.terminal.status_line import prompt_text
from tests.harness.home import Home
from tests.harness.processes import PATIENCE
from tests.harness.scripts import shell
from tests.harness.terminal import Tmux


@pytest.mark.parametrize(
    ("target", "prompt"),
    [
        ("local", "> "),
        ("confined", "> "),
        ("ssh:user@host", "(ssh user@host)> "),
        ("container:web-1", "(container web-1)> "),
        ("ssh:a\x1b[2J\nb", "(ssh a\\x1b[2J b)> "),
    ],
)
def test_the_prompt_says_where_commands_run(target: str, prompt: str) -> None:
    assert prompt_text(target) == prompt


def test_the_first_screen_says_where_commands_run_and_whether_buddy_asks(home: Home) -> None:
    home.script({"text": "over"})
    with Tmux(home, "--ssh", "me@host.invalid", "-C", "/srv", "--approve", "all") as terminal:
        screen = terminal.wait_for("(ssh me@host.invalid)>")
        assert "commands run on ssh:me@host.invalid, without asking" in screen
    with Tmux(home, "--approve", "10m", "--no-tmux") as terminal:
        terminal.wait_for("approvals: auto-approve everything for 10m (shift-tab)")
        terminal.enter("go")
        terminal.wait_for("approvals: auto-approving everything for 9m")


@pytest.mark.slow
def test_tool_calls_can_be_hidden_and_tokens_shown(home: Home) -> None:
    home.script(shell("echo quiet"), {"text": "over"})
    config = home.directory / ".config" / "buddy" / "buddy.toml"
    config.write_text(config.read_text() + "[display]\nshow_tool_calls = false\nshow_tokens = true\n")
    with Tmux(home, "--approve", "all") as terminal:
        terminal.wait_for("(shift-tab)")
        terminal.enter("go")
        screen = terminal.wait_for("✓ done")
    assert "echo quiet" not in screen
    assert "exit 0" not in screen
    assert screen.count(" tokens in, ") == 2


@pytest.mark.slow
def test_an_idle_session_is_resumed(home: Home) -> None:
    home.script({"text": "one"}, {"text": "two"}).run("exec", "first")
    with Tmux(home, "resume", "--last") as terminal:
        screen = terminal.wait_for("↻ Session resumed")
        assert "one" in screen
        assert "resumed session · /status shows its settings · /help" in screen
        assert "Buddy asks first" not in screen
        terminal.enter("second")
        terminal.wait_for("two")


class OldDaemon:
    """Answers `hello` as another version; nothing else is requested before the first message."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> None:
        self._thread.start()
        assert self._ready.wait(PATIENCE)

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        self._loop.close()

    def _run(self) -> None:
        self._loop.run_until_complete(self._serve())

    async def _serve(self) -> None:
        self._stop = asyncio.Event()
        async with await asyncio.start_unix_server(self._answer, self._socket):
            self._ready.set()
            await self._stop.wait()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if line := await reader.readline():
            request = parse_request(line.rstrip(b"\n"))
            hello = HelloReply("buddyd", "9.9.9", PROTOCOL, ("stream_tokens",), {})
            writer.write(Response(request.request_id, "hello", True, encode(hello), None).line())
            await self._stop.wait()
        writer.close()


def test_a_daemon_of_another_version_is_reported(home: Home) -> None:
    home.script({"text": "hi"})
    socket = home.directory / "old.sock"
    with OldDaemon(socket), Tmux(home, "--socket", str(socket), columns=100) as terminal:
        screen = terminal.wait_for("(shift-tab)")
        terminal.keys("C-d")
        terminal.wait_for("[ended 0]")
    assert "! The daemon is version 9.9.9, this is 0.1.0. Restart it: buddy daemon restart" in screen
