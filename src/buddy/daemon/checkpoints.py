"""The checkpoint store of a runtime: built from the configuration, and kept small."""

from contextlib import suppress
from pathlib import Path

from buddy.checkpoints.checkpoints import CheckpointError, Checkpoints
from buddy.checkpoints.limits import MIB, CheckpointLimits
from buddy.config.settings import Config


def make_checkpoints(config: Config, state_dir: Path) -> Checkpoints | None:
    """The store of this state directory; None if it is turned off. Nothing is opened before the first use."""
    settings = config.checkpoints
    if not settings.enabled:
        return None
    limits = CheckpointLimits(
        max_file=settings.max_file_mb * MIB,
        max_total=settings.max_total_mb * MIB,
        max_files=settings.max_files,
        keep_days=settings.keep_days,
    )
    return Checkpoints(state_dir, limits)


async def prune_checkpoints(checkpoints: Checkpoints | None) -> None:
    """Remove what is too old."""
    if checkpoints is not None:
        with suppress(CheckpointError):
            await checkpoints.prune()


async def forget_checkpoints(checkpoints: Checkpoints | None, session_id: str) -> None:
    """Remove what was kept for a deleted session."""
    if checkpoints is not None:
        with suppress(CheckpointError):
            await checkpoints.prune(session_id)
