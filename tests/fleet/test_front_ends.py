"""People's own front ends over a fleet: nothing changes for them, whichever node has their session."""

import asyncio
import json
from pathlib import Path

import pytest

from tests.fleet.nodes import FleetOf
from tests.harness.home import Home
from tests.harness.postgres import Postgres
from tests.harness.terminal import Tmux


@pytest.mark.slow
@pytest.mark.needs("tmux")
async def test_a_terminal_at_one_node_uses_a_session_of_another(tmp_path: Path, postgres: Postgres) -> None:
    async with FleetOf(tmp_path, postgres, "a", "b") as fleet:
        client = await fleet.client("a")
        session_id = await fleet.start(client)
        at_b, home = fleet.nodes["b"], Home(tmp_path / "home")
        home.env |= {"BUDDY_STATE_DIR": str(at_b.state_dir), "BUDDY_CONFIG": str(at_b.config)}

        def use() -> None:
            with Tmux(home, "resume", session_id) as terminal:
                terminal.wait_for(">")
                terminal.enter("make it")
                terminal.wait_for("1 Yes")
                terminal.keys("1")
                terminal.wait_for("made")
                terminal.enter("drip")
                terminal.wait_for("drop drop")
                # The node that has the session dies; the terminal's own does not.
                fleet.nodes["a"].kill()
                terminal.enter("count")
                terminal.wait_for("one two three")

        await asyncio.to_thread(use)
        assert fleet.owner(session_id) == "b"
        assert await fleet.violations(session_id) == []


async def test_a_command_at_one_node_continues_a_session_of_another(tmp_path: Path, postgres: Postgres) -> None:
    async with FleetOf(tmp_path, postgres, "a", "b") as fleet:
        client = await fleet.client("a")
        session_id = await fleet.start(client, approvalPolicy="all")
        done = await asyncio.to_thread(fleet.nodes["b"].run, "exec", "--session", session_id, "--json", "twice")
        assert done.code == 0, done.err
        assert json.loads(done.out)["sessionId"] == session_id
        assert fleet.owner(session_id) == "a"
        assert await fleet.violations(session_id) == []
