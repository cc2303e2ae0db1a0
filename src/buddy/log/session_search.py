"""Finding sessions in the database: newest first, by an index on the hour of their last use.

Invariants: `used_hour` is that of `updated_at`, and is written only when it changes, because an index on `updated_at`
itself would cost every append a page; what no index narrows down is looked for in a thread, on a connection of its
own, so that nobody waits for it but the one who asked.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

from buddy.log import rows
from buddy.log.contract import INCOMPLETE, SessionQuery, SessionRecord, UserUsage
from buddy.log.database import Database, Value
from buddy.log.rows import HOUR_MS, RECORD, records_of
from buddy.log.schema import open_reader

Result = TypeVar("Result")

_TEXT = "concat_ws(char(10), nullif(title, ''), root_path, nullif(repo ->> '$.currentBranch', ''), id)"
# SQLite's own `lower` knows ASCII; only a text with other letters is worth a call into Python.
_HAS_WORD = (
    f"(instr(lower({_TEXT}), ?) OR (length({_TEXT}) <> octet_length({_TEXT}) AND "
    "instr(searched_text(title, root_path, repo ->> '$.currentBranch', id), ?)))"
)
MANY = 1000
_HAS_MANY = "SELECT 1 FROM sessions WHERE user = ? LIMIT 1 OFFSET ?"
_ORDER = "ORDER BY used_hour DESC, updated_at DESC, key DESC LIMIT ?"


async def find(reader: Database, path: Path, query: SessionQuery) -> list[SessionRecord]:
    """The sessions that match; `reader` answers what an index narrows down."""
    if query.words or query.state or query.archived:
        return await asyncio.to_thread(_with_own_reader, path, partial(search, query=query))
    return search(reader, query)


async def usage_of(reader: Database, path: Path, user: str, day: int) -> UserUsage:
    """What a user has and spends; of many sessions, looking at the state of each takes a while."""
    if reader.execute(_HAS_MANY, (user, MANY)).get is None:
        return rows.usage_of(user, day, reader)
    return await asyncio.to_thread(_with_own_reader, path, partial(rows.usage_of, user, day))


def search(db: Database, query: SessionQuery) -> list[SessionRecord]:
    statement, bindings = statement_of(query)
    return records_of(db.execute(statement, bindings))


def statement_of(query: SessionQuery) -> tuple[str, tuple[Value, ...]]:
    """One that names only what is asked for: a condition that may be absent keeps SQLite from using an index."""
    used, session_id = query.after or (None, None)
    index = "sessions_of_folder" if query.root_path is not None else "sessions_by_use"
    if query.user is not None and query.root_path is None:
        index = "sessions_of_user"
    terms: list[tuple[str, tuple[Value, ...]]] = [("used_hour <= ?", (_hour(used),)), ("state <> ?", (INCOMPLETE,))]
    if query.root_path is not None:
        terms.append(("root_path = ?", (query.root_path,)))
    if query.user is not None:
        terms.append(("user = ?", (query.user,)))
    if used is not None:
        before = "(updated_at, key) < (?, coalesce((SELECT key FROM sessions WHERE id = ?), 0))"
        terms.append((before, (used, session_id)))
    if query.state is not None:
        terms.append(("state = ?", (query.state,)))
    if query.archived is not None:
        terms.append(("archived = ?", (query.archived,)))
    terms += [(_HAS_WORD, (word, word)) for word in query.words]
    where = " AND ".join(term for term, _ in terms)
    bindings = [value for _, values in terms for value in values]
    statement = f"{RECORD} INDEXED BY {index} WHERE {where} {_ORDER}"
    return statement, (*bindings, max(query.limit, 0))


def _hour(used: int | None) -> int:
    return used // HOUR_MS if used is not None else 1 << 40


def _with_own_reader(path: Path, work: Callable[[Database], Result]) -> Result:
    reader = open_reader(path)
    try:
        return work(reader)
    finally:
        reader.close()
