"""Which agent runtime a session gets: its own choice, its project's, the server's, and what auto finds."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from buddy.backends.choose import Choice, check_name, choose
from buddy.errors import ProtocolError, UserError
from buddy.protocol.events import SessionStarted, WarningRaised
from buddy.protocol.requests import (
    CreateProject,
    CreateProjectReply,
    ListProjects,
    ListProjectsReply,
    ProjectOptions,
    ProjectOptionsReply,
)
from tests.backends.agents import Agent, runtime_of
from tests.harness.runtime import RuntimeHost


def chosen(wanted: str, *installed: str, key: bool = False) -> Choice:
    return choose(wanted, prefers_droid=lambda: key, is_installed=lambda name: name in installed)


def test_auto_prefers_droid_if_there_is_a_factory_key() -> None:
    assert chosen("auto", "droid", "opencode", key=True).name == "droid"


def test_auto_is_opencode_without_a_factory_key() -> None:
    assert chosen("auto", "droid", "opencode").name == "opencode"


def test_auto_with_a_key_and_no_droid_is_opencode() -> None:
    assert chosen("auto", "opencode", key=True).name == "opencode"


@pytest.mark.parametrize("key", [True, False])
def test_auto_with_nothing_installed_is_native_and_says_so(key: bool) -> None:
    found = chosen("auto", key=key)
    assert found.name == "native"
    assert "installed" in found.note


@pytest.mark.parametrize("name", ["native", "droid", "opencode", "acp:gemini", "acp:my-agent --stdio"])
def test_a_name_is_never_replaced(name: str) -> None:
    assert chosen(name, "droid", key=True) == Choice(name)


@pytest.mark.parametrize("name", ["", "claude", "acp:", "acp: ", "Droid"])
def test_an_unknown_name_is_refused_with_the_available_ones(name: str) -> None:
    with pytest.raises(UserError) as refused:
        check_name(name)
    assert "acp:COMMAND" in refused.value.hint


@asynccontextmanager
async def at(agent: Agent, workspace: Path, env: dict[str, str]) -> AsyncGenerator[RuntimeHost]:
    """A service with the PATH from `env`, so that programs on this machine are not found."""
    runtime = runtime_of(agent, workspace, more=env)
    try:
        yield RuntimeHost(runtime, workspace)
    finally:
        await runtime.close()


NOBODY = Agent("nobody", env={"FACTORY_API_KEY": ""})
EMPTY = {"PATH": "/nowhere", "FACTORY_API_KEY": "", "HOME": "/nowhere"}


async def test_a_session_says_when_auto_falls_back_to_native(tmp_path: Path) -> None:
    async with at(Agent("auto", runtime="auto"), tmp_path, EMPTY) as host, host.client() as client:
        await client.start()
        warned = await client.wait_for(WarningRaised)
        assert warned.code == "AGENT_RUNTIME"
        started = client.bodies(SessionStarted)[0]
        assert started.options is not None
        assert started.options.agent_runtime == "native"


async def test_droid_without_its_program_is_refused_with_the_install_command(tmp_path: Path) -> None:
    async with at(NOBODY, tmp_path, {**EMPTY, "FACTORY_API_KEY": "fk-test"}) as host, host.client() as client:
        with pytest.raises(ProtocolError) as refused:
            await client.start(agent_runtime="droid")
        assert refused.value.code == "PROVIDER_NOT_CONFIGURED"
        assert "npm install -g droid" in (refused.value.detail or "")


async def test_an_unknown_agent_runtime_is_refused(tmp_path: Path) -> None:
    async with at(NOBODY, tmp_path, EMPTY) as host, host.client() as client:
        with pytest.raises(ProtocolError, match="gizmo") as refused:
            await client.start(agent_runtime="gizmo")
        assert refused.value.code == "INVALID_REQUEST"


async def test_a_projects_own_runtime_overrides_the_servers(tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    async with at(Agent("acp", runtime="acp:server-agent"), tmp_path, EMPTY) as host, host.client() as client:
        request = CreateProject("inner", str(inner), "native")
        assert (await client.api.request(request, CreateProjectReply)).project_id.startswith("proj_")
        client.workspace = inner
        await client.start()
        with pytest.raises(ProtocolError, match="server-agent"):
            client.workspace = tmp_path
            await client.start()


async def test_the_nearest_project_decides(tmp_path: Path) -> None:
    deep = tmp_path / "a" / "b"
    deep.mkdir(parents=True)
    async with at(NOBODY, tmp_path, EMPTY) as host, host.client() as client:
        for name, folder, runtime in (("outer", tmp_path, "acp:outer"), ("near", tmp_path / "a", "acp:near")):
            await client.api.request(CreateProject(name, str(folder), runtime), CreateProjectReply)
        client.workspace = deep
        with pytest.raises(ProtocolError, match="acp:near"):
            await client.start()
        client.workspace = tmp_path
        with pytest.raises(ProtocolError, match="acp:outer"):
            await client.start()


async def test_a_project_without_a_runtime_uses_the_servers(tmp_path: Path) -> None:
    async with at(Agent("acp", runtime="acp:server-agent"), tmp_path, EMPTY) as host, host.client() as client:
        await client.api.request(CreateProject("plain", str(tmp_path)), CreateProjectReply)
        with pytest.raises(ProtocolError, match="server-agent"):
            await client.start()


async def test_projects_are_listed_and_created_once_per_folder(tmp_path: Path) -> None:
    async with at(NOBODY, tmp_path, EMPTY) as host, host.client() as client:
        await client.api.request(CreateProject("one", str(tmp_path), "auto"), CreateProjectReply)
        for request in (CreateProject("two", str(tmp_path)), CreateProject("one", "/elsewhere")):
            with pytest.raises(ProtocolError, match="already"):
                await client.api.request(request, CreateProjectReply)
        with pytest.raises(ProtocolError, match="absolute"):
            await client.api.request(CreateProject("three", "relative"), CreateProjectReply)
        with pytest.raises(ProtocolError, match="unknown agent runtime"):
            await client.api.request(CreateProject("four", "/four", "gizmo"), CreateProjectReply)
        listed = (await client.api.request(ListProjects(), ListProjectsReply)).projects
        assert [(found["name"], found["rootPath"], found["agent_runtime"]) for found in listed] == [
            ("one", str(tmp_path), "auto")
        ]


async def test_options_list_the_usable_runtimes_and_the_servers_default(tmp_path: Path) -> None:
    programs = Agent("droid", script="acp.py", runtime="auto", env={"FACTORY_API_KEY": "fk-test"})
    async with at(programs, tmp_path, {}) as host, host.client() as client:
        options = (await client.api.request(ProjectOptions(), ProjectOptionsReply)).agent_runtimes
        assert options.default == "auto"
        assert options.available[:2] == ("native", "droid")
