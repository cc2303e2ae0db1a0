"""Sessions whose run was active when their process died, found without a lease and without writing."""

from pathlib import Path

import apsw

from buddy.log.owners import is_alive
from buddy.log.schema import explain, open_reader

_ACTIVE = """
SELECT s.id, s.owner, o.seen FROM sessions s LEFT JOIN owners o ON o.owner = s.owner
WHERE s.state IN ('running', 'awaiting_approval') ORDER BY s.key
"""


def find_interrupted(database: Path, now_ms: int) -> list[str]:
    """The ids of active sessions without a living owner; UserError if the database can't be read."""
    try:
        reader = open_reader(database)
        try:
            found = list(reader.execute(_ACTIVE))
        finally:
            reader.close()
    except apsw.Error as error:
        raise explain(error, database) from error
    return [session_id for session_id, owner, seen in found if owner is None or not is_alive(owner, seen, now_ms)]
