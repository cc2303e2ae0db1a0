"""Droid's credentials, and which folders' settings it may follow."""

import json
from pathlib import Path

import pytest

from buddy.approvals.trust import Trust
from buddy.backends.droid.agent import Droid
from buddy.backends.droid.credentials import factory_key, has_own_credentials
from buddy.config.places import Places
from buddy.config.settings import Config
from buddy.daemon.agents import credential_folders
from buddy.daemon.runtime import Runtime, RuntimeOverrides, unix_ms
from buddy.errors import UserError
from buddy.log.memory import MemoryLog
from buddy.protocol.events import Error, RunComplete
from buddy.targets.launchers import LocalLauncher
from buddy.targets.local import Local
from buddy.targets.remote import Remote
from tests.backends.agents import Agent, agent_host
from tests.backends.droid.program import agent_request, droid, environment, install, workspace

DROID = Agent("droid", runtime="droid", script="droid.py", env={"FACTORY_API_KEY": "fk-for-tests"})
HOOKS = {"hooks": {"SessionStart": [{"hooks": [{"type": "command", "command": "touch hooked"}]}]}}


@pytest.mark.parametrize("entry", ["api_key", "apiKey"])
def test_the_key_in_the_environment_takes_precedence_over_the_file(tmp_path: Path, entry: str) -> None:
    assert factory_key({}, tmp_path) == ""
    (tmp_path / "factory.json").write_text(json.dumps({entry: "fk-file", "more": 1}))
    assert factory_key({}, tmp_path) == "fk-file"
    assert factory_key({"FACTORY_API_KEY": " "}, tmp_path) == "fk-file"
    assert factory_key({"FACTORY_API_KEY": "fk-env"}, tmp_path) == "fk-env"


def test_the_first_file_that_has_a_key_is_used(tmp_path: Path) -> None:
    for name in ("empty", "first", "second"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "factory.json").write_text(json.dumps({} if name == "empty" else {"api_key": f"fk-{name}"}))
    folders = [tmp_path / name for name in ("missing", "empty", "first", "second")]
    assert factory_key({}, *folders) == "fk-first"


def test_a_key_beside_a_named_configuration_file_is_found_and_redacted(tmp_path: Path) -> None:
    beside, own = tmp_path / "project", tmp_path / "config"
    beside.mkdir()
    (beside / "factory.json").write_text('{"api_key": "fk-beside-the-file"}')
    places = Places(own, tmp_path / "state", tmp_path / "socket")
    config = Config(source=str(beside / "buddy.toml"))
    assert credential_folders(config, places) == (beside, own)
    runtime = Runtime(config, places, {}, RuntimeOverrides(log=MemoryLog(unix_ms)))
    assert "fk-beside" not in runtime.scrubber.text("the key is fk-beside-the-file")


@pytest.mark.parametrize("content", ["", "{", "[]", '{"api_key": 7}', '{"api_key": ""}'])
def test_an_invalid_file_gives_no_key(tmp_path: Path, content: str) -> None:
    (tmp_path / "factory.json").write_text(content)
    assert factory_key({}, tmp_path) == ""


@pytest.mark.parametrize(
    ("name", "content", "enough"),
    [
        ("settings.json", '{"customModels": [{"model": "m"}]}', True),
        ("settings.json", '{"customModels": []}', False),
        ("settings.json", "{", False),
        ("auth.v2.file", "x", True),
    ],
)
def test_a_login_or_a_custom_model_counts_as_credentials(
    tmp_path: Path, name: str, content: str, *, enough: bool
) -> None:
    (tmp_path / ".factory").mkdir()
    (tmp_path / ".factory" / name).write_text(content)
    assert has_own_credentials({"HOME": str(tmp_path)}) is enough


async def test_the_settings_of_an_untrusted_folder_are_refused(tmp_path: Path) -> None:
    folder = workspace(tmp_path) / ".factory"
    folder.mkdir()
    (folder / "settings.json").write_text(json.dumps(HOOKS))
    async with droid(tmp_path) as agent:
        with pytest.raises(UserError, match="can make droid run commands") as refused:
            await agent.execute(agent_request(tmp_path))
        assert refused.value.hint.endswith(f"buddy trust {workspace(tmp_path)}")


async def test_settings_above_the_workspace_in_its_repository_count_too(tmp_path: Path) -> None:
    inner = workspace(tmp_path) / "inner"
    inner.mkdir()
    (workspace(tmp_path) / ".git").mkdir()
    (workspace(tmp_path) / ".factory").mkdir()
    (workspace(tmp_path) / ".factory" / "mcp.json").write_text("{}")
    trusted: list[str] = []
    agent = Droid(environment(tmp_path), tmp_path / "config", is_trusted=lambda folder: folder in trusted)
    await agent.start(Local(), str(inner))
    request = agent_request(tmp_path, "say hello")
    with pytest.raises(UserError, match=r"mcp\.json"):
        await agent.execute_once(type(request)(request.text, str(inner), request.nonce))
    trusted.append(str(workspace(tmp_path)))
    result = await agent.execute_once(type(request)(request.text, str(inner), request.nonce))
    assert result.text == "hello"


async def test_a_session_works_after_its_folder_is_trusted(tmp_path: Path) -> None:
    root = workspace(tmp_path)
    (root / ".factory").mkdir()
    (root / ".factory" / "settings.json").write_text(json.dumps(HOOKS))
    async with agent_host(DROID, root) as host, host.client() as client:
        await client.start()
        await client.send("say hello")
        assert (await client.wait_for(RunComplete)).outcome == "failed"
        assert "not trusted" in client.bodies(Error)[0].message
        Trust(tmp_path / "work-programs" / "state").set(str(root), trusted=True)
        await client.send("say hello")
        assert (await client.wait_for(RunComplete)).outcome == "success"


class There(LocalLauncher):
    """Runs locally but counts as another machine."""

    name = "ssh:there"


async def test_on_a_remote_target_the_program_is_looked_up_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = Droid({"FACTORY_API_KEY": "fk-for-tests", "HOME": "/nowhere"}, tmp_path / "config")
    target = Remote(There())
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    with pytest.raises(UserError, match="not found on ssh:there") as refused:
        await agent.start(target, str(workspace(tmp_path)))
    assert refused.value.hint == "on ssh:there: npm install -g droid"
    monkeypatch.setenv("PATH", install(tmp_path / "programs"))
    await agent.start(target, str(workspace(tmp_path)))
    assert (
        await agent.execute_once(agent_request(tmp_path, "shows FACTORY_API_KEY"))
    ).text == "FACTORY_API_KEY=fk-for-tests"
    # This machine's own variables are not passed on.
    assert (await agent.execute_once(agent_request(tmp_path, "shows HOME"))).text != "HOME=/nowhere"
    (workspace(tmp_path) / ".factory").mkdir()
    (workspace(tmp_path) / ".factory" / "hooks.json").write_text("{}")
    with pytest.raises(UserError, match="not trusted") as untrusted:
        await agent.execute(agent_request(tmp_path))
    assert "use a container" in untrusted.value.hint
