"""Looking at a place, for what an approval shows. Nothing is changed."""

from buddy.errors import ToolError
from buddy.tools.contract import Place

KERNELS_OWN = ("/proc/", "/sys/", "/dev/")


async def located(path: str, place: Place) -> str:
    """The canonical path of a file that may be read or written; the kernel's own are none, where all is workspace."""
    found = await place.target.locate(path, root=place.root)
    if found.startswith(KERNELS_OWN):
        raise ToolError(f"{found} is not a file of the workspace but the machine's own; use run_shell to look at it")
    return found


async def present(path: str, place: Place, limit: int) -> bytes | None:
    """The start of the file that is there now; None where there is none."""
    try:
        return await place.target.read_file(path, root=place.root, limit=limit)
    except ToolError as error:
        if error.code == "FILE_NOT_FOUND":
            return None
        raise
