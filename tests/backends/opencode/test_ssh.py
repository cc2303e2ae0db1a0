"""OpenCode on another machine: its server runs there and is reached over one connection."""

import asyncio
from pathlib import Path

import pytest

from buddy.backends.external.contract import Completion, Permission
from buddy.errors import UserError
from buddy.targets.launchers import SshLauncher, close_connections
from buddy.targets.remote import Remote
from tests.backends.opencode.serving import make, request
from tests.backends.talking import send
from tests.targets.machines import ssh_server

pytestmark = pytest.mark.slow  # a real SSH server, and a daemon behind it


async def test_opencode_works_over_ssh(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    control = tmp_path_factory.mktemp("c")
    with ssh_server(tmp_path_factory.mktemp("sshd")) as server:
        target = Remote(SshLauncher("127.0.0.1", control, server.options))
        try:
            with pytest.raises(UserError, match=r"no-such-opencode is not installed on ssh:127\.0\.0\.1"):
                await make(str(tmp_path), "no-such-opencode").start(target, str(tmp_path))
            agent = make(str(tmp_path))
            await agent.start(target, str(tmp_path))
            try:
                executors = [await agent.execute(request(tmp_path)) for _ in range(2)]
                received = await asyncio.gather(*(send(one, "run echo there") for one in executors))
                assert [events[-1] for events in received] == [Completion("completed", "done")] * 2
                assert sum(isinstance(event, Permission) for events in received for event in events) == 2
                dropped = await send(executors[0], "drop heard lost regained")
                assert dropped[-1] == Completion("completed", "heard lost regained")
            finally:
                await agent.close()
        finally:
            await close_connections(control)
