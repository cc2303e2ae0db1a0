"""The user's file: written once as a template of comments, and added to where the user says so.

Invariants: a file that exists is never overwritten, only added to; the template names no model, so that writing
it changes nothing; what is written is read back first. The file has mode 0600, its folder 0700.
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
    """Write the template where there is no configuration at all; OSError where that cannot be done."""
    if find_config(env, None, places) is not None:
        return None
    path = places.config_dir / "buddy.toml"
    return path if _create(path, template()) else None


def add_profile(path: Path, name: str, block: str) -> None:
    """Add `[models.name]` with these lines to a file; UserError where it has one already, or cannot be written."""
    text = path.read_text(encoding="utf-8") if path.exists() else template()
    if name in parse_config(text, str(path)).models:
        raise UserError(f"{path} has a profile {name!r} already", hint=f"use it: --profile {name}")
    longer = f"{text.rstrip()}\n\n[models.{name}]\n{block.strip()}\n"
    parse_config(longer, str(path))
    try:
        _replace(path, longer)
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}", hint=f"add to it yourself:\n{block}") from error


def _create(path: Path, text: str) -> bool:
    """Appear whole or not at all: another process may look at any moment. False where there is such a name already."""
    _make_folder(path.parent)
    beside = _write_beside(path, text)
    try:
        os.link(beside, path)
    except FileExistsError:
        return False
    finally:
        beside.unlink()
    return True


def _replace(path: Path, text: str) -> None:
    _make_folder(path.parent)
    # A link, as those keep who hold their settings in a repository, stays one.
    real = path.resolve()
    _write_beside(real, text).replace(real)


def _make_folder(folder: Path) -> None:
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not folder.is_dir():
        folder.mkdir(mode=0o700, exist_ok=True)


def _write_beside(path: Path, text: str) -> Path:
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.unlink(missing_ok=True)
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    return beside
