"""Run a command on a target and inspect the files it left."""

from pathlib import Path

from buddy.targets.contract import Target
from tests.targets.captured_output import CapturedOutput


def contents(place: Path) -> dict[str, bytes]:
    """Every file below a directory, by its path."""
    return {str(path.relative_to(place)): path.read_bytes() for path in place.rglob("*") if path.is_file()}


def mode_of(path: str) -> int:
    return Path(path).stat().st_mode & 0o777


async def run(target: Target, command: str, root: Path, nonce: str, timeout: float | None = None) -> tuple[int, str]:
    taken = CapturedOutput()
    finished = await target.run(command, cwd=str(root), nonce=nonce, on_output=taken, timeout=timeout)
    return finished.exit_code, (taken.output["stdout"] + taken.output["stderr"]).decode()
