"""What a node keeps by itself: reached from other nodes, and forgotten there, too, with the session."""

import asyncio
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.fleet.nodes import FleetOf
from tests.harness.clients import send
from tests.harness.postgres import Postgres
from tests.harness.processes import ROOT
from tests.harness.scripts import Reply, section, shell

PATIENCE = 60.0
SCRIPT: list[Reply] = [
    section("^write", shell("printf 'one\\ntwo\\n' > made.txt"), {"text": "written"}),
    section("^remember", {"text": "The heron is called Adalbert."}),
]


def has_forgotten(folder: Path, session_id: str) -> bool:
    """Whether a node's memory index will never have this session again."""
    index = next(folder.rglob("memory.db"), None)
    if index is None:
        return False
    with closing(sqlite3.connect(f"file:{index}?mode=ro", uri=True)) as db:
        try:
            found = db.execute("SELECT forgotten FROM sessions WHERE session = ?", (session_id,)).fetchone()
        except sqlite3.OperationalError:
            return False  # it is being made
        return found == (1,)


@pytest.mark.slow
async def test_the_files_of_a_session_are_listed_by_any_node(tmp_path: Path, postgres: Postgres) -> None:
    async with FleetOf(tmp_path, postgres, "a", "b", script=SCRIPT) as fleet:
        here, there = await fleet.client("a"), await fleet.client("b")
        session_id = await fleet.start(here, "local", approvalPolicy="all")
        await send(here, session_id, "write it")
        await here.wait_for("run_complete")
        mine = await here.ask("list_changes", {"diff": True}, session_id)
        assert [file["path"] for file in mine["files"]] == ["made.txt"]
        assert await there.ask("list_changes", {"diff": True}, session_id) == mine
        # The page for operators names everything that a node has by itself.
        page = (ROOT / "docs" / "fleet.md").read_text()
        found = {re.sub("-(wal|shm)$", "", path.name) for path in fleet.nodes["a"].state_dir.iterdir()}
        assert {name for name in found if f"`{name}`" not in page} == set()


async def test_a_deleted_session_is_forgotten_by_all_nodes(tmp_path: Path, postgres: Postgres) -> None:
    async with FleetOf(tmp_path, postgres, "a", "b", script=SCRIPT) as fleet:
        here, there = await fleet.client("a"), await fleet.client("b")
        session_id = await fleet.start(here)
        listed = await there.ask("watch_sessions", {})
        assert [row["sessionId"] for row in listed["sessions"]] == [session_id]
        await send(here, session_id, "remember this")
        await here.wait_for("run_complete")
        await here.ask("delete_session", {}, session_id)
        async with asyncio.timeout(PATIENCE):
            while not any(row["payload"].get("deleted") for row in there.events if row["type"] == "session_row"):
                await there.receive()
            while not all(has_forgotten(tmp_path / node, session_id) for node in "ab"):  # noqa: ASYNC110 - others do it
                await asyncio.sleep(0.1)
