"""How much checkpoints may cost."""

from msgspec import Struct

MIB = 1024 * 1024


class CheckpointLimits(Struct, frozen=True):
    """Sizes are in bytes; `seconds` is how long a call waits for the contents of its files to be stored."""

    max_file: int = 32 * MIB
    max_total: int = 2048 * MIB
    max_files: int = 100_000
    seconds: float = 2.0
    keep_days: float = 14.0
    min_free: int = 500 * MIB


# Directories that tools fill and can fill again: covered only if they are small.
HEAVY = frozenset(
    {
        *("node_modules", ".venv", "venv", "__pycache__", "site-packages", ".tox", ".nox", ".mypy_cache"),
        *(".ruff_cache", ".pytest_cache", ".hypothesis", ".cache", ".gradle", ".next", ".nuxt", ".turbo", "target"),
        *("bower_components", ".pnpm-store", ".terraform", "DerivedData", "Pods"),
    }
)
MAX_HEAVY = 2000
REPOSITORY = frozenset({".git", ".hg", ".svn", ".jj"})
