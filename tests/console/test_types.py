"""The console's modules pass the type checker: they are plain JavaScript with types in comments."""

import subprocess

import pytest

from tests.console.browser import package
from tests.harness.processes import ROOT

pytestmark = pytest.mark.slow


def test_the_modules_are_well_typed() -> None:
    checker = package("typescript") / "bin" / "tsc"
    found = subprocess.run(
        ["node", checker, "-p", ROOT / "src" / "buddy" / "console"], capture_output=True, text=True, check=False
    )
    assert (found.returncode, found.stdout) == (0, "")


def test_every_module_is_checked() -> None:
    modules = [
        *(ROOT / "src" / "buddy" / "console").glob("*.js"),
        *(ROOT / "src" / "buddy" / "console" / "views").glob("*.js"),
    ]
    assert modules
    unchecked = [path.name for path in modules if not path.read_text(encoding="utf-8").startswith("// @ts-check")]
    assert unchecked == []
