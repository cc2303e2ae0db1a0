"""The lock files agree: `make demo` installs the same packages as everything else, only fewer."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


def test_what_the_demo_installs_is_a_part_of_the_lock() -> None:
    everything, runtime = _packages("requirements.lock"), _packages("requirements-runtime.lock")
    assert runtime <= everything
    assert len(runtime) < len(everything) / 2


def test_what_the_demo_installs_has_everything_that_buddy_declares_and_is_built_with() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    declared = [*project["project"]["dependencies"], *project["build-system"]["requires"]]
    names = {re.split(r"[^\w-]", one)[0].replace("_", "-") for one in declared}
    assert names <= {one.partition("==")[0] for one in _packages("requirements-runtime.lock")}


def _packages(lock: str) -> set[str]:
    """Each package with its version, markers and hashes."""
    return set(re.split(r"\n(?=\S)", (ROOT / lock).read_text(encoding="utf-8").strip()))
