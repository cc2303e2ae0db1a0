"""What a test finds in a folder afterwards."""

from pathlib import Path


def names_in(folder: Path, pattern: str) -> list[str]:
    return sorted(path.name for path in folder.glob(pattern))


def read_ledger(workspace: Path) -> list[str]:
    """The nonces of the calls that were really executed; the executed commands write them."""
    path = workspace / "ledger"
    return path.read_text().split() if path.exists() else []


def contents_of(folder: Path) -> list[bytes]:
    """The bytes of every file, to search them for what must not be there."""
    return [path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()]
