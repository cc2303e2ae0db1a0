"""The user's configuration file: created once as a commented template, extended when the user asks for it.

Invariants: an existing file is never overwritten, only extended; the template names no model, so creating it changes
nothing; new content is parsed before it is written. The file has mode 0600, its folder 0700.
"""

import os
from collections.abc import Mapping
from pathlib import Path

from buddy.config.load import find_config, parse_config
from buddy.config.places import Places
from buddy.errors import UserError


def template() -> str:
    return Path(__file__).with_name("template.toml").read_text(encoding="utf-8")


def write_template(env: Mapping[str, str], places: Places) -> Path | None:
    """Write the template if there is no configuration; OSError if that fails."""
    if find_config(env, None, places) is not None:
        return None
    path = places.config_dir / "buddy.toml"
    return path if _create(path, template()) else None


def add_profile(path: Path, name: str, block: str) -> None:
    """Add `[models.name]` with these lines; UserError if it already exists or the file cannot be written."""
    text = path.read_text(encoding="utf-8") if path.exists() else template()
    if name in parse_config(text, str(path)).models:
        raise UserError(f"{path} already has a profile {name!r}", hint=f"use it: --profile {name}")
    longer = f"{text.rstrip()}\n\n[models.{name}]\n{block.strip()}\n"
    parse_config(longer, str(path))
    try:
        _replace(path, longer)
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}", hint=f"add it yourself:\n{block}") from error


def _create(path: Path, text: str) -> bool:
    """Create the file atomically: another process may read it at any moment. False if it already exists."""
    _make_folder(path.parent)
    temporary = _write_temporary(path, text)
    try:
        os.link(temporary, path)
    except FileExistsError:
        return False
    finally:
        temporary.unlink()
    return True


def _replace(path: Path, text: str) -> None:
    _make_folder(path.parent)
    # Users who keep their settings in a repository link to them: the link stays.
    real = path.resolve()
    _write_temporary(real, text).replace(real)


def _make_folder(folder: Path) -> None:
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not folder.is_dir():
        folder.mkdir(mode=0o700, exist_ok=True)


def _write_temporary(path: Path, text: str) -> Path:
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    return temporary
