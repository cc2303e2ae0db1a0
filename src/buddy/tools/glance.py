"""Looking at a place, for what an approval shows. Nothing is changed."""

from buddy.errors import ToolError
from buddy.tools.contract import Place


async def present(path: str, place: Place, limit: int) -> bytes | None:
    """The start of the file that is there now; None where there is none."""
    try:
        return await place.target.read_file(path, root=place.root, limit=limit)
    except ToolError as error:
        if error.code == "FILE_NOT_FOUND":
            return None
        raise
