"""The file as it is now, for what an approval shows."""

from buddy.errors import ToolError
from buddy.tools.contract import Place


async def read_if_exists(path: str, place: Place, limit: int) -> bytes | None:
    """The first `limit` bytes of a file; None if it does not exist."""
    try:
        return await place.target.read_file(path, root=place.root, limit=limit)
    except ToolError as error:
        if error.code == "FILE_NOT_FOUND":
            return None
        raise
