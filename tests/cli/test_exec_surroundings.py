"""`buddy exec` with what is around it: stdin, pipes, other processes, full disks and secrets."""

import asyncio
import json
import signal

import pytest

from buddy.protocol.events import ToolResult
from tests.harness.fake_model import Answer, FakeModel, Request, answer_to, calls, says
from tests.harness.home import Home
from tests.harness.processes import parse_event
from tests.harness.scripts import shell


@pytest.mark.parametrize("arguments", [["exec", "-"], ["exec"]])
def test_the_prompt_comes_from_a_pipe(home: Home, arguments: list[str]) -> None:
    home.script().run(*arguments, stdin="from the pipe\nétoile\n")
    assert "from the pipe" in home.run("session", "show", "last").out
    assert "étoile" in home.run("session", "show", "last").out


def test_a_prompt_without_end_is_refused(home: Home) -> None:
    done = home.script({"text": "hi"}).sh("buddy exec - < /dev/zero")
    assert done.code == 64
    assert "longer than 256 KiB" in done.err


def test_a_prompt_on_the_command_line_leaves_stdin_alone(home: Home) -> None:
    home.script({"text": "hi"})
    assert home.sh("printf 'a\\nb\\n' | { buddy exec go >/dev/null 2>&1; cat; }").out == "a\nb\n"


def test_without_a_prompt_a_terminal_is_not_waited_for(home: Home) -> None:
    with home.script({"text": "hi"}).terminal("exec") as terminal:
        assert terminal.finish() == 64
    assert b"no prompt given" in terminal.shown


@pytest.mark.slow
async def test_several_at_once_share_a_state_directory(home: Home) -> None:
    home.script(shell("echo x >> ledger"), {"text": "done"})
    runs = [asyncio.to_thread(home.run, "exec", f"go {number}", "--approve", "all") for number in range(6)]
    assert [(done.code, done.out) for done in await asyncio.gather(*runs)] == [(0, "done\n")] * 6
    assert (home.work / "ledger").read_text() == "x\n" * 6
    assert [path.name for path in home.work.iterdir()] == ["ledger"]
    listed = json.loads(home.run("session", "list", "--json").out)["sessions"]
    assert sorted(session["prompt"] for session in listed) == [f"go {number}" for number in range(6)]


def test_a_killed_run_is_finished_by_resume(home: Home) -> None:
    script = home.script(shell("echo once >> ledger; echo ready; sleep 60"), {"text": "I came back."})
    with script.start("exec", "go", "--approve", "all", "--stream-json") as running:
        running.wait_for("tool_output")
        running.signal(signal.SIGKILL)
        running.process.wait(60)
    done = home.run("resume", "--last", "--stream-json")
    assert done.code == 0
    results = [body for body in (event.body() for event in done.events) if isinstance(body, ToolResult)]
    assert [body.structured_error.type for body in results if body.structured_error] == ["UNKNOWN_OUTCOME"]
    assert [event.seq for event in done.events] == list(range(1, len(done.events) + 1))
    assert (home.work / "ledger").read_text() == "once\n"
    again = home.run("resume", "last")
    assert (again.code, again.out) == (0, "I came back.\n")


@pytest.mark.slow
def test_a_window_of_approval_does_not_outlive_the_process(home: Home) -> None:
    script = home.script(shell("echo ready; sleep 60"), shell("echo ran > ran"))
    with script.start("exec", "go", "--approve", "10m", "--stream-json") as running:
        running.wait_for("tool_output")
        running.signal(signal.SIGKILL)
        running.process.wait(60)
    assert home.run("resume", "--last").code == 3
    assert not (home.work / "ran").exists()


@pytest.mark.slow
def test_resume_gives_the_outcome_of_a_run_that_was_over(home: Home) -> None:
    home.script({"text": "", "error": {"message": "no"}}).run("exec", "go")
    assert home.run("resume", "--last").code == 1


@pytest.mark.slow
@pytest.mark.parametrize("command", ["buddy exec go --stream-json", "buddy session export last", "buddy demo --fast"])
def test_a_reader_that_leaves_early_is_not_an_error(home: Home, command: str) -> None:
    home.script({"text": "word " * 20_000}).run("exec", "go")
    done = home.sh(f"{command} | head -1")
    assert done.out.count("\n") == 1
    for word in ("Traceback", "Exception", "BrokenPipe", "Errno"):
        assert word not in done.err


@pytest.mark.slow
@pytest.mark.parametrize("form", ["", "--stream-json", "--json"])
def test_a_reader_that_has_left_ends_a_run_with_the_daemon_too(home: Home, form: str) -> None:
    home.script({"text": "word " * 20_000}).run("daemon", "start")
    try:
        done = home.sh(f"buddy exec go {form} | exec 0<&-; echo ${{PIPESTATUS[0]}}")
    finally:
        home.run("daemon", "stop")
    assert done.out == "1\n"
    assert "Traceback" not in done.err


STREAMS = [
    ("buddy exec go <&-", 0, "done\n"),
    ("buddy exec go >&-", 0, ""),
    ("buddy exec go 2>&-", 0, "done\n"),
    ("buddy exec go <&- >&- 2>&-", 0, ""),
    ("buddy exec <&-", 64, ""),
    ("buddy exec - <&-", 64, ""),
    ("buddy <&-", 0, ""),
    ("echo go | buddy >&-", 0, ""),
    ("buddy session list >&-", 0, ""),
    ("buddy exec go >/dev/full", 75, ""),
    ("buddy exec go --json >/dev/full", 75, ""),
    ("echo go | buddy >/dev/full", 1, ""),
    ("buddy session list --json >/dev/full", 75, ""),
]


@pytest.mark.slow
@pytest.mark.parametrize(("command", "code", "out"), STREAMS)
def test_closed_or_full_streams_are_handled(home: Home, command: str, code: int, out: str) -> None:
    home.script({"text": "done"})
    try:
        done = home.sh(command)
    finally:
        home.run("daemon", "stop")
    assert (done.code, done.out) == (code, out)
    assert "Traceback" not in done.err


@pytest.mark.parametrize(
    "command", ["exec go", "session list", "ps", "daemon start", "approvals list", "resume --last", ""]
)
def test_a_place_that_cannot_be_written_to_is_one_line_and_exits_64(home: Home, command: str) -> None:
    (home.directory / "file").touch()
    done = home.script().run(*command.split(), env={"BUDDY_STATE_DIR": str(home.directory / "file" / "state")})
    assert done.code == 64
    assert done.err.startswith("error: cannot create ")
    assert "Not a directory" in done.err.splitlines()[0]
    assert len(done.err.splitlines()) == 2


def test_a_daemon_that_cannot_start_says_why_and_exits_as_it_did(home: Home) -> None:
    done = home.run("daemon", "start", "--listen", "0.0.0.0:0")
    assert done.code == 64
    error, hint = done.err.splitlines()
    assert error.startswith("error: the daemon did not start: --listen 0.0.0.0 can be reached")
    assert "--allow-remote" in hint


@pytest.mark.parametrize("command", ["exec go", "session list"])
def test_without_room_for_a_log_it_is_one_line_and_exits_75(home: Home, command: str) -> None:
    done = home.script().sh(f"ulimit -f 1; buddy {command}")
    assert done.code == 75
    assert done.err.startswith("error: ")
    assert len(done.err.splitlines()) == 2


async def test_a_key_is_seen_nowhere(home: Home) -> None:
    key = "canary-5f1e9c0d7b3a48e6"
    command = json.dumps({"command": f"echo {key}; echo $BUDDY_API_KEY; printenv"})

    def answer(request: Request) -> Answer:
        is_first = b'"role":"tool"' not in request.raw
        return answer_to(request, calls(("run_shell", command)) if is_first else says(f"Your key is {key} indeed"))

    async with FakeModel(answer) as model:
        env = {"BUDDY_BASE_URL": model.base_url, "BUDDY_MODEL": "m", "BUDDY_API_KEY": key}
        plain = await asyncio.to_thread(home.run, "exec", f"use {key}", "--approve", "all", env=env)
        lines = await asyncio.to_thread(home.run, "exec", "go", "--stream-json", "--approve", "all", env=env)
        looked = await asyncio.to_thread(home.run, "doctor", env=env)
        assert all(key.encode() not in request.raw for request in model.requests)
    exported = home.run("session", "export", "last")
    assert plain.code == lines.code == exported.code == 0
    assert "REDACTED" in plain.out
    for done in (plain, lines, looked, exported, home.run("session", "show", "last"), home.run("session", "list")):
        assert key not in done.out
        assert key not in done.err
    assert key.encode() not in home.everything()


def test_event_lines_are_read_back_as_they_were_written(home: Home) -> None:
    done = home.script({"text": "größe \u2028 \U0001f600"}).run("exec", "go", "--stream-json")
    assert all(parse_event(line).line().decode() == f"{line}\n" for line in done.out.split("\n")[:-1])


async def test_an_error_is_printed_once(home: Home) -> None:
    async with FakeModel([Answer(status=401, body=b'{"error": {"message": "who are you?"}}')]) as model:
        env = {"BUDDY_BASE_URL": model.base_url, "BUDDY_MODEL": "gpt-4o", "BUDDY_API_KEY": "k"}
        done = await asyncio.to_thread(home.run, "exec", "go", env=env)
    assert (done.code, done.out) == (1, "")
    assert done.err.count("the model API answered 401: who are you?") == 1
