"""Modules that are kept together are the same modules, for as long as their files are."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

# Imports a package over the bundle, and says where its modules come from and what is in them.
PROGRAM = """
import sys
from buddy.cli.bundle import Bundle
bundle = Bundle(sys.argv[1])
sys.meta_path.insert(0, bundle)
sys.path.insert(0, sys.argv[2])
import inspect, pack, pack.part
assert pack.part.__file__ == sys.argv[2] + "/pack/part.py" == pack.part.told.__code__.co_filename
assert pack.part.__cached__ == pack.part.__spec__.cached and "__pycache__" in pack.part.__cached__
assert pack.__path__ == [sys.argv[2] + "/pack"] and pack.__package__ == pack.part.__package__ == "pack"
assert inspect.getsource(pack.part.told).startswith("def told")
print(type(pack.__loader__).__name__, type(pack.part.__loader__).__name__, pack.part.told())
bundle.keep()
"""

Imported = Callable[[], str]


@pytest.fixture
def imported(tmp_path: Path) -> Imported:
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack" / "__init__.py").touch()
    _write(tmp_path, "one")

    def run() -> str:
        command = [sys.executable, "-c", PROGRAM, str(tmp_path / "bundle"), str(tmp_path)]
        env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout.strip()

    return run


def _write(folder: Path, told: str) -> None:
    (folder / "pack" / "part.py").write_text(f"def told():\n    return {told!r}\n")


def test_what_was_imported_once_comes_from_the_bundle(imported: Imported) -> None:
    assert imported() == "SourceFileLoader SourceFileLoader one"
    assert imported() == "_Kept _Kept one"


def test_a_module_that_was_changed_is_read_from_its_own_file_and_kept_again(imported: Imported, tmp_path: Path) -> None:
    imported()
    _write(tmp_path, "three")
    assert imported() == "_Kept SourceFileLoader three"
    assert imported() == "_Kept _Kept three"


@pytest.mark.parametrize("left", [0, 3, 8, 200, -20])
def test_a_damaged_bundle_costs_time_alone(imported: Imported, tmp_path: Path, left: int) -> None:
    imported()
    bundle = tmp_path / "bundle"
    bundle.write_bytes(bundle.read_bytes()[:left])
    assert imported().endswith(" one")
    assert imported() == "_Kept _Kept one"


def test_a_bundle_that_cannot_be_written_costs_time_alone(imported: Imported, tmp_path: Path) -> None:
    (tmp_path / "bundle").mkdir()
    assert imported() == imported() == "SourceFileLoader SourceFileLoader one"
    assert {path.name for path in tmp_path.iterdir()} == {"bundle", "pack"}


def test_with_a_search_path_of_ones_own_nothing_is_kept() -> None:
    program = "from buddy.cli.bundle import place_of; print(repr(place_of('a/b.py')))"
    usual = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    for env, told in ((usual, True), ({**usual, "PYTHONPATH": "/none"}, False)):
        command = [sys.executable, "-c", program]
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=True)
        assert ("__pycache__" in done.stdout) is told
