"""A backup that is taken while a fleet works, restored into another database and used by another fleet."""

from pathlib import Path

import pytest

from tests.fleet.nodes import FleetOf, approve
from tests.harness.clients import read_log, send
from tests.harness.postgres import Postgres

pytestmark = pytest.mark.usefixtures("placement")


@pytest.mark.slow
async def test_a_dump_of_a_working_fleet_can_be_restored(tmp_path: Path, postgres: Postgres) -> None:
    (tmp_path / "before").mkdir()
    (tmp_path / "after").mkdir()
    dump = postgres.folder / "backup.dump"
    server = ("-h", str(postgres.folder), "-p", str(postgres.port), "-U", "postgres")
    async with FleetOf(tmp_path / "before", postgres, "a", "b") as fleet:
        here = await fleet.client("a")
        idle = await fleet.start(here, approvalPolicy="all")
        await send(here, idle, "twice")
        await here.wait_for("run_complete")
        asking = await fleet.start(here)
        await send(here, asking, "make it")
        asked = await here.wait_for("approval_required")
        postgres.run("pg_dump", *server, "--format=custom", f"--file={dump}", fleet.database)
        # What comes later is not in it.
        await send(here, idle, "count")
        await here.wait_for("run_complete")
        before = await read_log(here, idle)
    restored = FleetOf(tmp_path / "after", postgres, "c")
    postgres.run("pg_restore", *server, f"--dbname={restored.database}", str(dump))
    async with restored:
        client = await restored.client("c")
        found = await read_log(client, idle)
        assert found == before[: len(found)]
        assert found[-1]["type"] == "run_complete"
        # The run that the dump caught in the middle still waits, and any node may continue it.
        await restored.attach(client, asking)
        await approve(client, asked)
        assert (await client.wait_for("run_complete"))["payload"]["outcome"] == "success"
        await restored.attach(client, idle, found[-1]["seq"])
        await send(client, idle, "count")
        while (await client.wait_for("run_complete"))["sessionId"] != idle:
            pass  # that of the other session
        with restored.ledger.open("a") as ledger:
            ledger.write(fleet.ledger.read_text())
        assert await restored.violations(idle, asking) == []
