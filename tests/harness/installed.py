"""Programs that a test needs: where one is missing the test is skipped, but not in CI if CI installs it."""

import functools
import importlib.util
import os
import re
import shutil

import pytest

from tests.harness.processes import ROOT


def need(*programs: str) -> None:
    """Skip the running test unless these programs are installed; in CI, fail if it should have installed them."""
    for program in programs:
        if shutil.which(program) is None:
            reason = f"{program} is not installed"
            if os.environ.get("CI") and program in installed_by_ci():
                pytest.fail(f"{reason}, but .ci/run installs it")
            pytest.skip(reason)


def need_services(package: str) -> None:
    """Skip the module that calls it before its imports unless `make services` was run; in CI, which runs it, fail."""
    if importlib.util.find_spec(package) is None:
        reason = f"needs the package {package}: make services"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason, allow_module_level=True)


@functools.cache
def installed_by_ci() -> frozenset[str]:
    """The programs that `.ci/run` checks for and installs."""
    return frozenset(re.findall(r"^need (\S+) ", (ROOT / ".ci" / "run").read_text(encoding="utf-8"), re.MULTILINE))
