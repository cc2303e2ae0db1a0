"""A shared log of every schema that existed is brought up to date, with what it has."""

import pytest

from buddy.log.contract import Batch
from buddy.log.postgres.schema import MIGRATIONS
from buddy.protocol.envelopes import event_of
from buddy.protocol.events import AssistantToken
from tests.harness.logs import opened_log, read_all
from tests.harness.postgres import Postgres
from tests.log.records import SESSION, batch, started

ROW = f"""
INSERT INTO sessions (id, repo, root_path, place_folded, mode, state, created_at, updated_at, last_seq, epoch)
VALUES ('{SESSION}', '{{"rootPath": "/project"}}', '/project', '/project', 'interactive', 'idle', 1, 1, 1, 1);
INSERT INTO events SELECT key, 1, 1, NULL, 'warning', '{{"code":"NOTE","message":"before"}}' FROM sessions;
"""  # noqa: S608 - constants only


@pytest.mark.parametrize("version", range(1, len(MIGRATIONS)))
async def test_a_shared_log_of_an_older_schema_is_used_as_if_it_were_new(postgres: Postgres, version: int) -> None:
    url = postgres.database()
    name = url.rpartition("/")[2]
    made = "CREATE TABLE buddy_schema (version integer NOT NULL, oldest integer NOT NULL);"
    marked = f"INSERT INTO buddy_schema VALUES ({version}, 1);"  # noqa: S608 - a number
    postgres.sql("".join((made, marked, *MIGRATIONS[:version], ROW)), name)
    async with opened_log(url) as log:
        lease = await log.acquire(SESSION, "owner")
        assert lease is not None
        await log.append(batch(lease, 1))
        assert [event.seq for event in await read_all(log, SESSION)][:2] == [1, 2]
        assert (await log.usage_of("ann", 0)).sessions == 0
    assert postgres.sql("SELECT version FROM buddy_schema", name) == str(len(MIGRATIONS))


async def test_a_prune_keeps_what_an_older_node_has_named_again(postgres: Postgres) -> None:
    url = postgres.database()
    async with opened_log(url) as log:
        lease = await started(log)
        blob, other = await log.put_blob(b"again"), await log.put_blob(b"once")
        naming = AssistantToken(text="", blobs={"text": blob, "other": other})
        event = event_of(naming, session_id=SESSION, seq=1, ts=1)
        await log.append(Batch(SESSION, lease.epoch, 0, [event]))
        await log.append(batch(lease, 1))
        # What a node of the fourth schema does when its event names a blob.
        named = f"INSERT INTO blob_refs SELECT '{blob}', key FROM sessions ON CONFLICT DO NOTHING"  # noqa: S608 - an id
        postgres.sql(named, url.rpartition("/")[2])
        assert await log.prune(lease, 2) == 2
        assert (await log.has_blob(SESSION, blob), await log.has_blob(SESSION, other)) == (True, False)
