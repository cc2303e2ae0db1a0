"""Two versions of Buddy on one log, as during a rolling upgrade."""

import asyncio
import re
import shutil
from pathlib import Path

import pytest

from buddy.version import VERSION
from tests.fleet.nodes import FleetOf
from tests.fleet.test_failures import taken_over
from tests.harness.clients import send
from tests.harness.postgres import Postgres
from tests.harness.processes import PATIENCE, SOURCES
from tests.harness.wire_client import WireClient

pytestmark = pytest.mark.usefixtures("placement")

NEWER = "99.0.0"
MIGRATION = """
_NEXT = "ALTER TABLE sessions ADD COLUMN mood text NOT NULL DEFAULT 'calm'; CREATE TABLE moods (id text PRIMARY KEY)"
MIGRATIONS = (*MIGRATIONS, _NEXT)
"""


def newer_version(folder: Path, *, is_additive: bool) -> Path:
    """The sources of a version that has migrated the tables once more."""
    shutil.copytree(SOURCES / "buddy", folder / "buddy", ignore=shutil.ignore_patterns("__pycache__"))
    version = folder / "buddy" / "version.py"
    version.write_text(version.read_text().replace(VERSION, NEWER))
    schema = folder / "buddy" / "log" / "postgres" / "schema.py"
    added = MIGRATION if is_additive else f"{MIGRATION}OLDEST = len(MIGRATIONS)\n"
    text = re.sub(r"(?m)^(OLDEST = .*\n(?:\"\"\".*\"\"\"\n)?)", lambda found: found[1] + added, schema.read_text())
    assert added in text
    schema.write_text(text)
    return folder


async def versions(client: WireClient) -> dict[str, str]:
    nodes = (await client.ask("list_nodes"))["nodes"]
    return {node["node"]: node["version"] for node in nodes if node["state"] == "ready"}


async def start_node(fleet: FleetOf, name: str) -> None:
    async with asyncio.timeout(PATIENCE):
        await asyncio.to_thread(fleet.restart, name)


@pytest.mark.slow
async def test_nodes_are_upgraded_one_after_the_other(tmp_path: Path, postgres: Postgres) -> None:
    newer = newer_version(tmp_path / "newer", is_additive=True)
    async with FleetOf(tmp_path, postgres, "a") as fleet:
        here = await fleet.client("a")
        session_id = await fleet.start(here, approvalPolicy="all")
        await send(here, session_id, "drip")
        await here.wait_for("assistant_token")
        # The newer node migrates the tables under the run of the older one.
        fleet.add("b")
        fleet.sources["b"] = newer
        await start_node(fleet, "b")
        there = await fleet.client("b")
        assert await versions(there) == {"a": VERSION, "b": NEWER}
        await fleet.attach(there, session_id)
        assert (await there.wait_for("run_complete"))["payload"]["outcome"] == "success"
        # Each serves what the other has.
        await send(there, session_id, "twice")
        assert (await there.wait_for("run_complete"))["payload"]["outcome"] == "success"
        other = await fleet.start(there, approvalPolicy="all")
        await fleet.attach(here, other)
        await send(here, other, "make it")
        while (await here.wait_for("run_complete"))["sessionId"] != other:
            pass  # those of the other session
        assert (fleet.owner(session_id), fleet.owner(other)) == ("a", "b")
        # The older one hands over and comes back upgraded.
        await there.wait_for("run_complete")
        await send(here, session_id, "drip")
        await there.wait_for("assistant_token")
        await there.ask("drain_node", {"node": "a"})
        await taken_over(there, "b", "a")
        assert fleet.nodes["a"].stop() == 0
        fleet.sources["a"] = newer
        await start_node(fleet, "a")
        assert await versions(there) == {"a": NEWER, "b": NEWER}
        assert (await there.wait_for("run_complete"))["payload"]["outcome"] == "success"
        assert len(fleet.ledger.read_text().split()) == 3
        assert await fleet.violations(session_id, other) == []


async def test_a_node_that_is_too_old_for_the_tables_does_not_start(tmp_path: Path, postgres: Postgres) -> None:
    fleet = FleetOf(tmp_path, postgres, "a")
    fleet.sources["a"] = newer_version(tmp_path / "newer", is_additive=False)
    async with fleet:
        older = fleet.add("b")
        assert older.launch(**fleet.env).wait(PATIENCE) == 64
        assert "was upgraded by a newer Buddy" in older.output()
        assert "upgrade Buddy on this machine" in older.output()
