"""`buddy exec` as a program: what goes where, and what its exit code says."""

import asyncio
import json
import os
import re
import signal
import subprocess
from pathlib import Path
from typing import Any, Protocol

import pytest
from jsonschema import Draft202012Validator
from referencing import Registry, Resource

from tests.harness.fake_model import Answer, FakeModel, Request, answer_to, delta, says
from tests.harness.home import Home
from tests.harness.scripts import shell
from tools.protocol_schema import EVENT, Schema, schemas

FIELDS = {
    "sessionId",
    "runId",
    "outcome",
    "exitCode",
    "text",
    "summary",
    "acceptance",
    "usage",
    "costUsd",
    "turns",
    "durationMs",
}
SLOW = shell("echo ready; sleep 60")


class Validator(Protocol):
    """The part of a validator that is used here; the library's own types are not complete."""

    def validate(self, instance: Schema) -> None: ...


def event_schema() -> Validator:
    files = schemas()
    resources = ((name, Resource[Any].from_contents(schema)) for name, schema in files.items())
    return Draft202012Validator(files[EVENT], registry=Registry[Any]().with_resources(resources))


# --- the answer ------------------------------------------------------------------------------------------------------


def test_the_answer_is_on_stdout_and_everything_else_on_stderr(home: Home) -> None:
    done = home.script(shell("echo from the tool", "I look."), {"text": "Here it is."}).run(
        "exec", "go", "--approve", "all"
    )
    assert (done.code, done.out) == (0, "Here it is.\n")
    assert "session sess_" in done.err
    assert "run_shell" in done.err
    assert "from the tool" in done.err


async def test_a_model_that_only_the_environment_names_is_asked(home: Home) -> None:
    async with FakeModel(lambda request: answer_to(request, says("Hello there"))) as model:
        env = {"BUDDY_BASE_URL": model.base_url, "BUDDY_MODEL": "m-1", "BUDDY_API_KEY": "key-for-the-test"}
        done = await asyncio.to_thread(home.run, "exec", "say hello", env=env)
        assert (done.code, done.out) == (0, "Hello there\n")
        (asked,) = [request for request in model.requests if request.raw]
        assert asked.body["model"] == "m-1"
        assert asked.headers["authorization"] == "Bearer key-for-the-test"


@pytest.mark.slow
def test_a_long_answer_is_printed_completely(home: Home) -> None:
    text = "".join(f"line {number} größe\n" for number in range(30_000)) + "the end"
    done = home.script({"text": text}).run("exec", "go")
    assert done.out == text + "\n"
    shown = json.loads(home.run("exec", "go", "--json").out)
    assert shown["text"] == text


def test_run_headless_is_exec(home: Home) -> None:
    done = home.script({"text": "yes"}).run("run", "--headless", "--task", "go")
    assert (done.code, done.out) == (0, "yes\n")


def test_json_has_exactly_the_documented_fields(home: Home) -> None:
    done = home.script({"text": "fine"}).run("exec", "go", "--json", "--accept", "true")
    shown = json.loads(done.out)
    assert done.out.count("\n") == 1
    assert set(shown) == FIELDS
    assert (shown["outcome"], shown["exitCode"], shown["text"], shown["turns"]) == ("success", 0, "fine", 1)
    assert shown["acceptance"] == {
        "total": 1,
        "passed": 1,
        "results": [{"id": "accept-1", "passed": True, "exitCode": 0, "output": ""}],
    }
    assert set(shown["usage"]) == {"inputTokens", "outputTokens", "budget"}
    assert shown["usage"]["budget"]["limits"] == {"maxTurns": 50}


def test_stream_json_is_the_log_and_ends_with_run_complete(home: Home) -> None:
    done = home.script(shell("echo hi"), {"text": "fine"}).run("exec", "go", "--stream-json", "--approve", "all")
    lines = done.out.splitlines()
    for line in lines:
        event_schema().validate(json.loads(line))
    assert [event.seq for event in done.events] == list(range(1, len(lines) + 1))
    assert all(event.body() is not None for event in done.events)
    assert done.events[-1].type == "run_complete"
    assert home.run("session", "export", "last").out == done.out


# --- exit codes ------------------------------------------------------------------------------------------------------


def test_a_failed_run_exits_1(home: Home) -> None:
    done = home.script({"text": "", "error": {"message": "no such model"}}).run("exec", "go")
    assert (done.code, done.out) == (1, "")
    assert "error: no such model" in done.err


def test_an_interrupt_cancels_the_run_and_exits_2(home: Home) -> None:
    with home.script(SLOW).start("exec", "go", "--approve", "all", "--stream-json") as running:
        running.wait_for("tool_output")
        running.signal(signal.SIGINT)
        done = running.finish()
    assert done.code == 2
    assert json.loads(done.out.splitlines()[-1])["payload"]["outcome"] == "cancelled"
    assert "Traceback" not in done.err
    assert "never retrieved" not in done.err


def test_terminate_is_a_cancel_too(home: Home) -> None:
    with home.script(SLOW).start("exec", "go", "--approve", "all", "--stream-json") as running:
        running.wait_for("tool_output")
        running.signal(signal.SIGTERM)
        assert running.finish().code == 2


def test_what_is_ignored_stays_ignored(home: Home) -> None:
    script = home.script(shell("echo ready; until test -e go; do sleep 0.05; done"), {"text": "still here"})
    with script.start("exec", "go", "--approve", "all", "--stream-json", under=["nohup"]) as running:
        running.wait_for("tool_output")
        running.signal(signal.SIGHUP)
        (home.work / "go").touch()
        assert running.finish().code == 0


@pytest.mark.parametrize("flags", [("--sandbox", "host"), ("--approve", "ask")])
def test_without_a_terminal_asking_is_a_denial_and_exits_3(home: Home, flags: tuple[str, str]) -> None:
    done = home.script(shell("echo ran > ran")).run("exec", "go", *flags)
    assert done.code == 3
    assert not (home.work / "ran").exists()
    assert "denied" in done.err


def test_a_window_that_is_over_is_a_denial_without_waiting(home: Home) -> None:
    script = home.script(shell("sleep 0.2"), shell("echo ran > ran"))
    done = script.run("exec", "go", "--approve", "100ms")
    assert done.code == 3
    assert not (home.work / "ran").exists()


def test_a_check_that_keeps_failing_exits_4(home: Home) -> None:
    done = home.script({"text": "done"}).run("exec", "go", "--json", "--accept", "true", "--accept", "exit 7")
    shown = json.loads(done.out)
    assert (done.code, shown["exitCode"]) == (4, 4)
    assert [result["exitCode"] for result in shown["acceptance"]["results"]] == [0, 7]


def test_a_budget_that_runs_out_between_two_rounds_leaves_the_results_of_the_first(home: Home) -> None:
    checks = ("--accept", "echo no; exit 7", "--accept", "true")
    done = home.script({"text": "done"}).run("exec", "go", "--json", "--max-turns", "1", *checks)
    assert done.code == 5
    assert json.loads(done.out)["acceptance"] == {
        "total": 2,
        "passed": 1,
        "results": [
            {"id": "accept-1", "passed": False, "exitCode": 7, "output": "no\n"},
            {"id": "accept-2", "passed": True, "exitCode": 0, "output": ""},
        ],
    }


def test_a_used_up_budget_exits_5(home: Home) -> None:
    done = home.script(shell("true"), {"text": "never said"}).run("exec", "go", "--approve", "all", "--max-turns", "1")
    assert done.code == 5
    assert "failed: the budget of 1 turn is used up" in done.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["exec", "go", "--frobnicate"], "--frobnicate"),
        (["exec", "go", "--profile", "nobody"], "unknown profile 'nobody'. Available: script, scripted"),
        (["exec", "go", "--max-turns", "0"], "--max-turns must be more than 0"),
        (["exec", "go", "--max-time", "soon"], "not a duration"),
        (["exec", "go", "--max-cost", "1"], "price"),
        (["exec", "go", "--approve", "maybe"], "unknown approval policy"),
        (["exec", "go", "--approve", "9999999999999999d"], "unknown approval policy"),
        (["exec", "go", "-C", "nowhere"], "not a directory"),
        (["exec", "go", "--config", "nowhere.toml"], "no configuration file"),
        (["exec", "go", "--sandbox", "bunker"], "sandbox"),
        (["exec", "go", "--sandbox", ""], "sandbox"),
        (["exec", "go", "--ssh", ""], "--ssh: the value must not be empty"),
        (["exec", "go", "--container", "", "-C", "/"], "--container: the value must not be empty"),
        (["exec", "go", "--agent-runtime", ""], "--agent-runtime: the value must not be empty"),
        (["exec", "go", "--max-time", ""], "--max-time: the value must not be empty"),
        (["exec", "go", "--accept", ""], "--accept: the value must not be empty"),
        (["exec", "go", "-m", ""], "--model: the value must not be empty"),
        (["exec", "  "], "no prompt"),
        (["sesion"], "sesion"),
        (["resume"], "no session given"),
        (["resume", "--last"], "no session in"),
        (["resume", "sess_01ARZ3NDEKTSV4RRFFQ69G5FAV"], "no session sess_01ARZ3NDEKTSV4RRFFQ69G5FAV"),
    ],
)
def test_what_the_user_got_wrong_is_one_line_and_exits_64(home: Home, arguments: list[str], said: str) -> None:
    done = home.script({"text": "hi"}).run(*arguments)
    assert (done.code, done.out) == (64, "")
    first, *rest = done.err.splitlines()
    assert first.startswith("error: ")
    assert said in first
    assert all(line.startswith("hint: ") for line in rest)


def test_no_model_exits_64_and_says_how_to_get_one(home: Home) -> None:
    done = home.run("exec", "go")
    assert done.code == 64
    assert "no model is configured" in done.err
    assert "hint: set BUDDY_BASE_URL" in done.err


@pytest.mark.parametrize("words", [["exec", "go"], ["doctor"]])
def test_a_key_variable_that_is_not_set_is_named(home: Home, words: list[str]) -> None:
    folder = home.directory / ".config" / "buddy"
    folder.mkdir(parents=True)
    profile = '[models.a]\nbase_url = "http://127.0.0.1:9/v1"\nmodel = "m"\napi_key_env = "NOPE_KEY"\n'
    (folder / "buddy.toml").write_text(profile)
    done = home.run(*words)
    assert done.code == (64 if words[0] == "exec" else 1)
    assert "NOPE_KEY is not set, and profile 'a' reads its API key from it" in done.out + done.err


def test_common_flags_may_come_before_a_command(home: Home) -> None:
    state = str(home.directory / "elsewhere")
    home.script({"text": "hi"})
    done = home.run("--state-dir", state, "-C", str(home.work), "exec", "go", "--json")
    assert json.loads(done.out)["text"] == "hi"
    listed = home.run(f"--state-dir={state}", "session", "list", "--json")
    assert [session["prompt"] for session in json.loads(listed.out)["sessions"]] == ["go"]


async def test_an_unknown_context_window_is_reported_with_the_key_to_set(home: Home) -> None:
    def answer(request: Request) -> Answer:
        return Answer(says("hi")) if request.path.endswith("completions") else Answer(status=404, body=b"{}")

    async with FakeModel(answer) as model:
        env = {"BUDDY_BASE_URL": model.base_url, "BUDDY_MODEL": "m", "BUDDY_API_KEY": "k"}
        done = await asyncio.to_thread(home.run, "exec", "go", env=env)
    assert (done.code, done.out) == (0, "hi\n")
    assert "assuming 8,192 tokens\nhint: set BUDDY_CONTEXT_LIMIT\n" in done.err


@pytest.mark.slow
@pytest.mark.parametrize("window", [128_000, None])
async def test_a_long_first_prompt_is_sent_to_a_model_whose_window_only_the_server_knows(
    home: Home, window: int | None
) -> None:
    listed = {"data": [{"id": "m", "context_length": window}]} if window else {}

    def answer(request: Request) -> Answer:
        return Answer(says("hi")) if request.path.endswith("completions") else Answer(body=json.dumps(listed).encode())

    async with FakeModel(answer) as model:
        env = {"BUDDY_BASE_URL": model.base_url, "BUDDY_MODEL": "m", "BUDDY_API_KEY": "k"}
        text = "some words " * 8000
        done = await asyncio.to_thread(home.run, "exec", "-", env=env, stdin=text)
        assert (done.code, done.out) == (0, "hi\n"), done.err
        env["BUDDY_CONTEXT_LIMIT"] = "8192"
        done = await asyncio.to_thread(home.run, "exec", "-", env=env, stdin=text)
        assert done.code == 1
        assert "8192 tokens is full" in done.err
        env["BUDDY_CONTEXT_LIMIT"] = "many"
        done = await asyncio.to_thread(home.run, "exec", "hi", env=env)
        assert done.code == 64
        assert "BUDDY_CONTEXT_LIMIT 'many' is not a number of tokens" in done.err


def test_keys_of_profiles_that_are_not_used_are_redacted(home: Home) -> None:
    keys = [f"plain-words-for-profile-{number}" for number in range(4)]
    home.script({"calls": [{"name": "read_file", "args": {"path": "notes.txt"}}]}, {"text": " ".join(keys)})
    folder = home.directory / ".config" / "buddy"
    (folder / "key.txt").write_text(keys[1] + "\n")
    (folder / "factory.json").write_text(json.dumps({"api_key": keys[3]}))
    sources = (f'api_key = "{keys[0]}"', 'api_key_file = "key.txt"', 'api_key_env = "OTHER_VARIABLE"')
    with (folder / "buddy.toml").open("a") as file:
        for number, source in enumerate(sources):
            file.write(f'\n[models.other{number}]\napi_base_url = "http://127.0.0.1:9/v1"\nmodel = "m"\n{source}\n')
    (home.work / "notes.txt").write_text("\n".join(keys))
    done = home.run("exec", "--stream-json", "go", env={"OTHER_VARIABLE": keys[2]})
    assert done.code == 0
    assert "REDACTED" in done.out
    assert not [key for key in keys if key in done.out + done.err]


async def test_reasoning_is_printed_to_stderr(home: Home) -> None:
    thought = [delta(reasoning_content="first this,\nthen "), delta(reasoning_content="that \x1b[2J")]
    async with FakeModel(lambda _: Answer([*thought, *says("hi")])) as model:
        env = {"BUDDY_BASE_URL": model.base_url, "BUDDY_MODEL": "gpt-4o", "BUDDY_API_KEY": "k"}
        done = await asyncio.to_thread(home.run, "exec", "go", env=env)
    assert (done.code, done.out) == (0, "hi\n")
    assert "✻ first this,\nthen that \\x1b[2J\n" in done.err


@pytest.mark.needs("tmux")
def test_a_pane_is_announced_with_how_to_watch_it(home: Home, tmp_path: Path) -> None:
    tmux = {"TMUX_TMPDIR": str(tmp_path)}
    done = home.script({"text": "hi"}).run("exec", "go", "--tmux", "watched", env=tmux)
    subprocess.run(["tmux", "kill-server"], env={**os.environ, **tmux}, check=False)
    assert (done.code, done.out) == (0, "hi\n")
    assert "commands run in a pane that you can watch: tmux attach -t watched\n" in done.err


def test_arguments_that_are_not_text_exit_64(home: Home) -> None:
    done = home.script({"text": "hi"}).sh("buddy exec $'caf\\xe9'")
    assert done.code == 64
    assert "not UTF-8" in done.err


@pytest.mark.parametrize(
    "command", ["session list", "session show 1", "changes", "undo --yes", "exec -c go", "exec go"]
)
def test_a_directory_whose_name_is_not_text_exits_64(home: Home, command: str) -> None:
    done = home.script({"text": "hi"}).sh(f"mkdir $'caf\\xe9' && cd $'caf\\xe9' && buddy {command}")
    assert done.code == 64
    assert re.search(r"error: .*caf\\udce9'? is not UTF-8 text\nhint: ", done.err), done.err


def test_a_session_that_a_living_process_runs_exits_75(home: Home) -> None:
    with home.script(SLOW).start("exec", "go", "--approve", "all", "--stream-json") as running:
        session_id = running.wait_for("tool_output").session_id
        done = home.run("resume", session_id)
        assert done.code == 75
        assert "in use by another process" in done.err
        assert home.run("session", "delete", session_id).code == 75


def test_an_interrupt_before_the_run_exits_130(home: Home) -> None:
    with home.script({"text": "hi"}).start("exec", "-") as running:
        running.feed(b"x" * 200_000)
        running.signal(signal.SIGINT)
        assert running.process.wait(60) == 130
    assert not home.state.exists()


def test_a_denial_is_said_once_with_a_hint_and_never_looks_like_an_answer(home: Home) -> None:
    """Nobody can be asked here: what the model announced before is not what happened."""
    write = {"name": "write_file", "args": {"path": "a.txt", "content": "x"}}
    home.script({"text": "I write it.", "calls": [write]}, {"text": "written"})
    done = home.run("exec", "write it", "--sandbox", "host")
    assert (done.code, done.out) == (3, "")
    assert done.err.count("denied") == 2  # the outcome, and by whom
    lines = done.err.splitlines()
    assert lines[-2] == "denied: write_file was denied by policy"
    assert lines[-1].startswith("hint: nobody could be asked; use --approve all")
    outcome = json.loads(home.run("exec", "write it", "--sandbox", "host", "--json").out)
    assert (outcome["outcome"], outcome["exitCode"]) == ("denied", 3)
