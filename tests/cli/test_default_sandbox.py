"""Without flags: confined and `auto` where that is proven, else the host and `ask`, and the first lines say which."""

import asyncio
import json
from pathlib import Path

import pytest

from buddy.protocol.events import ApprovalReceived, SessionStarted
from buddy.targets.confine.probe import probe
from buddy.targets.confine.verdict import FILE, Verdict, write_verdict
from tests.harness.home import Home
from tests.harness.scripts import Reply, shell

CONFINED = "commands are confined: no network, writes only in this folder (--sandbox host turns it off)"
HOST = "commands run as your user"


@pytest.fixture(autouse=True)
def proven() -> str:
    proof = probe()
    if not proof.method:
        pytest.skip(proof.reason)
    return proof.method


def online(command: str) -> Reply:
    return {"calls": [{"name": "run_shell", "args": {"command": command, "network": True}}]}


def test_exec_works_without_flags_and_stays_in_its_folder(home: Home, proven: str) -> None:
    outside = home.directory / "outside"
    script = home.script(shell(f"echo fixed > test; echo no > {outside}; touch /var/tmp/x"), {"text": "fixed"})
    done = script.run("exec", "fix the test", "--stream-json")
    assert done.code == 0
    assert CONFINED in done.err
    assert (home.work / "test").read_text() == "fixed\n"
    assert not outside.exists()
    bodies = [event.body() for event in done.events]
    (started,) = [body for body in bodies if isinstance(body, SessionStarted)]
    assert started.options is not None
    assert (started.options.sandbox, started.options.approval_policy) == ("confined", "auto")
    assert [(body.by, body.decision) for body in bodies if isinstance(body, ApprovalReceived)] == [
        ("policy", "approve")
    ]
    assert json.loads((home.state / FILE).read_text())["method"] == proven


def test_what_needs_more_is_denied_without_a_person_and_the_run_goes_on(home: Home) -> None:
    done = home.script(online("touch online"), shell("touch offline"), {"text": "managed"}).run("exec", "go")
    assert (done.code, done.out) == (0, "managed\n")
    assert "denied by policy" in done.err
    assert sorted(path.name for path in home.work.iterdir()) == ["offline"]


@pytest.mark.parametrize(("typed", "made"), [("y\n", True), ("n\n", False)])
def test_what_needs_more_is_asked_on_a_terminal(home: Home, typed: str, made: bool) -> None:
    script = home.script(shell("touch offline"), online("touch online"), {"text": "fine"})
    with script.terminal("exec", "go") as terminal:
        terminal.wait_for("approve? [y/N] ")
        assert (home.work / "offline").exists()
        terminal.type(typed)
        assert terminal.finish() == 0
    assert (home.work / "online").exists() is made


@pytest.mark.slow
@pytest.mark.parametrize("changed", [False, True])
def test_a_session_of_a_person_goes_on_without_one(home: Home, changed: bool) -> None:
    """It asks, as somebody was there when it was started; the policy it has now decides whether a denial ends it."""
    script = home.script({"text": "first"}, online("touch online"), shell("touch offline"), {"text": "managed"})
    with script.terminal("exec", "go", "--approve", "ask" if changed else "auto", "--sandbox", "confined") as terminal:
        assert terminal.finish() == 0
    flags = ["--approve", "auto"] if changed else []
    done = home.run("exec", "-c", "more", *flags)
    assert (done.code, done.out) == (0, "managed\n")
    assert sorted(path.name for path in home.work.iterdir()) == ["offline"]


async def test_placeholders_of_a_running_command_are_no_settings(home: Home) -> None:
    script = home.script(shell("echo ready; while [ ! -e stop ]; do sleep 0.1; done"), {"text": "done"})
    with script.start("exec", "go", "--stream-json", "--sandbox", "confined") as running:
        running.wait_for("tool_output")
        assert (home.work / ".mcp.json").is_dir()
        done = await asyncio.to_thread(home.script({"text": "second"}).run, "exec", "hi")
        (home.work / "stop").touch()
        running.process.wait(60)
    assert (done.code, "ignoring" in done.err) == (0, False)


def test_where_the_last_self_test_failed_the_host_asks(home: Home) -> None:
    home.state.mkdir(mode=0o700)
    write_verdict(str(home.state), Verdict("", "not on this machine"))
    done = home.script(shell("touch made"), {"text": "fine"}).run("exec", "go")
    assert done.code == 3
    assert HOST in done.err
    assert not (home.work / "made").exists()


def test_a_workspace_that_cannot_be_confined_falls_back_visibly_unless_confined_was_asked_for(home: Home) -> None:
    place = home.state / "inside"
    place.mkdir(mode=0o700, parents=True)
    home.script(shell("touch made"), {"text": "fine"})
    done = home.run("exec", "go", "-C", str(place))
    assert done.code == 3
    assert f"{HOST} (confined is unavailable: the workspace {place} is inside" in done.err
    refused = home.run("exec", "go", "-C", str(place), "--sandbox", "confined")
    assert "session " not in refused.err
    assert refused.code not in (0, 3)
    assert list(place.iterdir()) == []


@pytest.mark.parametrize(
    ("flags", "sandbox", "policy"),
    [
        (("--sandbox", "host"), "host", "none"),
        (("--sandbox", "confined"), "confined", "auto"),
        (("--approve", "all"), "confined", "all"),
        (("--approve", "ask"), "confined", "none"),
        (("--sandbox", "host", "--approve", "auto"), "host", "auto"),
        (("--tmux", "some"), "host", "none"),
    ],
)
def test_a_flag_wins_over_the_default(home: Home, flags: tuple[str, ...], sandbox: str, policy: str) -> None:
    done = home.script({"text": "fine"}).run("exec", "go", "--stream-json", *flags)
    (options,) = [body.options for event in done.events if isinstance(body := event.body(), SessionStarted)]
    assert options is not None
    assert (options.sandbox, options.approval_policy) == (sandbox, policy)
    assert (CONFINED in done.err) == ("--approve" in flags and "--sandbox" not in flags)


def test_lines_from_a_pipe_run_confined_and_what_needs_more_is_denied(home: Home) -> None:
    home.script(shell("touch offline"), online("touch online"), {"text": "managed"})
    try:
        done = home.run(stdin="go\n")
    finally:
        home.run("daemon", "stop")
    assert (done.code, done.out) == (0, "managed\n")
    assert sorted(path.name for path in home.work.iterdir()) == ["offline"]


def test_the_verdict_is_void_once_something_it_depends_on_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from buddy.targets.confine import verdict

    def no_program(_name: str) -> None: ...

    write_verdict(str(tmp_path), Verdict("bubblewrap"))
    assert verdict.read_verdict(str(tmp_path)) == Verdict("bubblewrap")
    for name, value in {"VERSION": "another", "find_program": no_program, "BOOT_ID": "/proc/version"}.items():
        with monkeypatch.context() as patch:
            patch.setattr(verdict, name, value)
            assert verdict.read_verdict(str(tmp_path)) is None
    (tmp_path / FILE).write_text("{")
    assert verdict.read_verdict(str(tmp_path)) is None


def configure(home: Home, agent: str, more: str = "") -> None:
    config = home.directory / ".config" / "buddy" / "buddy.toml"
    config.write_text(config.read_text().replace("[agent]\n", f"[agent]\n{agent}\n") + more)


@pytest.mark.parametrize(
    ("agent", "flags", "expected"),
    [
        ('sandbox = "host"', (), ("host", "none")),  # without a person, ask means no
        ('sandbox = "host"\napprove = "all"', (), ("host", "all")),
        ('approve = "none"', (), ("confined", "none")),
        ('sandbox = "host"', ("--sandbox", "confined"), ("confined", "auto")),
        ('approve = "all"', ("--approve", "auto"), ("confined", "auto")),
        ('# sandbox = "host"\nmax_turns = 3', (), ("confined", "auto")),
    ],
)
def test_the_users_file_sets_sandbox_and_policy_of_new_sessions(
    home: Home, agent: str, flags: tuple[str, ...], expected: tuple[str, str]
) -> None:
    script = home.script({"text": "done"})
    configure(home, agent)
    done = script.run("exec", "go", "--stream-json", *flags)
    (started,) = [body for event in done.events if isinstance(body := event.body(), SessionStarted)]
    assert started.options is not None
    assert (started.options.sandbox, started.options.approval_policy) == expected


def test_a_projects_file_sets_neither(home: Home) -> None:
    script = home.script({"text": "done"})
    (home.work / "buddy.toml").write_text('[agent]\nsandbox = "host"\napprove = "all"\n')
    done = script.run("exec", "go", "--stream-json")
    (started,) = [body for event in done.events if isinstance(body := event.body(), SessionStarted)]
    assert started.options is not None
    assert (started.options.sandbox, started.options.approval_policy) == ("confined", "auto")


def test_explain_judges_by_the_sandbox_that_a_session_would_have(home: Home) -> None:
    script = home.script({"text": "done"})
    rule = '\n[[permissions.rules]]\ndecision = "allow"\nargv = ["date"]\nsandbox = "confined"\n'
    configure(home, "", rule)
    assert script.run("approvals", "explain", "date").code == 0
    assert home.run("approvals", "explain", "date", "--sandbox", "host").code == 10
    configure(home, 'sandbox = "host"')
    assert home.run("approvals", "explain", "date").code == 10
