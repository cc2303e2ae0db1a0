"""The line of `buddy doctor` about the size of the state directory."""

from pathlib import Path

from buddy.cli.doctor_check import Check
from buddy.cli.storage import format_size
from buddy.config.settings import StorageSettings
from buddy.daemon.storage import LARGE, measure
from buddy.errors import BuddyError


def check_storage(state_dir: Path, settings: StorageSettings, large: int = LARGE) -> Check:
    """How much there is; where that is much, how to have less."""
    try:
        used = measure(state_dir)
    except BuddyError as error:
        return Check("storage", "warn", str(error))
    parts = f"sessions {format_size(used.sessions + used.blobs)}, checkpoints {format_size(used.checkpoints)}"
    text = f"{format_size(used.total)} ({parts})"
    if settings.keep_days or settings.max_total_mb:
        days = f"sessions are kept for {settings.keep_days} days" if settings.keep_days else ""
        size = f"up to {settings.max_total_mb} MiB" if settings.max_total_mb else ""
        text = f"{text}; {', '.join(filter(None, (days, size)))}"
    # With a cap, the user has said how much is too much. An age alone limits no size.
    if used.total < large or settings.max_total_mb:
        return Check("storage", "ok", text)
    if settings.keep_days:
        hint = "buddy storage shows what takes it, max_total_mb in [storage] limits it"
        return Check("storage", "warn", f"{text}, however much they take", hint)
    hint = "buddy storage shows what takes it, buddy storage prune removes old sessions, [storage] does so every day"
    return Check("storage", "warn", f"{text}; nothing is removed by itself", hint)
