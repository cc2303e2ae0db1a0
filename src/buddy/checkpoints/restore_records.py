"""Restores and calls that a process left unfinished. A restore is committed before its first step.

A restore is `restoring` until its steps are taken, `restored` until the session's log has it, then `closed`.
"""

import os
import time
from collections.abc import Iterable

from buddy import faults
from buddy.checkpoints.contract import CallKey
from buddy.checkpoints.database import tick
from buddy.checkpoints.entries import Change
from buddy.checkpoints.rows import add_changes
from buddy.checkpoints.store import Store

_RECORD = """
INSERT INTO checkpoints (id, root, session, run, call, state, created, detail, began)
VALUES (?, ?, ?, ?, ?, 'restoring', ?, ?, ?)
"""


def record_restore(store: Store, key: CallKey, root: str, steps: Iterable[Change], detail: str) -> None:
    """Commit the steps of a restore before the first of them is taken."""
    with store.saving():
        place = (key.checkpoint, os.fsencode(root), key.session, key.run, key.call)
        store.db.execute(_RECORD, (*place, int(time.time()), detail, tick(store.db)))
        add_changes(store.db, key.checkpoint, steps)
    faults.reached("restore.recorded")


def finish_restore(store: Store, checkpoint: str, done: Iterable[Change]) -> None:
    """Keep of a restore what was done."""
    with store.saving():
        store.db.execute("DELETE FROM changes WHERE checkpoint = ?", (checkpoint,))
        add_changes(store.db, checkpoint, done)
        state = "UPDATE checkpoints SET state = 'restored', ended = ? WHERE id = ?"
        store.db.execute(state, (tick(store.db), checkpoint))
    faults.reached("restore.finished")


def close_checkpoint(store: Store, checkpoint: str) -> None:
    """The session's log has it."""
    store.db.execute("UPDATE checkpoints SET state = 'closed' WHERE id = ?", (checkpoint,))


def unrecorded_calls(store: Store, session: str) -> list[CallKey]:
    """Calls whose changes the session's log does not have, as far as the store knows."""
    query = "SELECT session, run, call FROM checkpoints WHERE session = ? AND state IN ('open', 'found')"
    return [CallKey(*row) for row in store.db.execute(query, (session,)).fetchall()]


def unfinished_restores(store: Store) -> list[tuple[str, str, str]]:
    """The checkpoint, the session and the detail of each."""
    query = "SELECT id, session, detail FROM checkpoints WHERE state IN ('restoring', 'restored')"
    return store.db.execute(query).fetchall()
