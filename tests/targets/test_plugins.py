"""A target from another package: the one in the documentation, installed and used."""

import importlib
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from buddy.errors import ProtocolError
from buddy.targets.choose import OwnDirectories, TargetRequest, choose, verify_target
from buddy.targets.contract import Finished
from tests.docs.documents import ROOT, blocks_of
from tests.targets.captured_output import CapturedOutput

TARGET, ENTRY = [block.text for block in blocks_of(ROOT / "docs" / "extend.md") if block.kind in ("python", "toml")][
    2:4
]

Install = Callable[[str, str], None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Installs a module with that text, named after the test, that provides the target `pod`."""
    packages = tmp_path / "site"
    packages.mkdir()
    monkeypatch.setattr(sys, "path", [str(packages), *sys.path])

    def put(module: str, text: str) -> None:
        (packages / f"{module}.py").write_text(text)
        facts = packages / f"{module}-1.0.dist-info"
        facts.mkdir()
        (facts / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
        (facts / "entry_points.txt").write_text(f"[buddy.targets]\npod = {module}:Pod\n")
        importlib.invalidate_caches()
        monkeypatch.delitem(sys.modules, module, raising=False)

    return put


@pytest.fixture
def kubectl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kubectl with a single pod, which is this machine."""
    program = tmp_path / "bin" / "kubectl"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\n[ "$1 $2 $3 $4" = "exec -i web --" ] || exit 1\nshift 4\nexec "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")


@pytest.fixture
def places(tmp_path: Path) -> OwnDirectories:
    return OwnDirectories(tmp_path / "config", tmp_path / "state", tmp_path / "run")


def test_the_documented_entry_point_is_the_one_installed_here() -> None:
    assert ENTRY == '[project.entry-points."buddy.targets"]\npod = "pods:Pod"\n'


@pytest.mark.usefixtures("kubectl")
async def test_the_documented_target_can_be_installed_and_used(
    install: Install, tmp_path: Path, places: OwnDirectories, nonce: str
) -> None:
    install("pods", TARGET)
    chosen = choose(TargetRequest("pod:web", str(tmp_path)), places)
    assert (chosen.target.name, chosen.sandbox) == ("pod:web", "host")
    await verify_target(chosen.target, chosen.root)
    taken = CapturedOutput()
    assert await chosen.target.run("pwd; exit 3", cwd=chosen.root, nonce=nonce, on_output=taken) == Finished(3)
    assert taken.output["stdout"].decode() == f"{tmp_path}\n"
    await chosen.target.write_file("x", b"1", root=chosen.root)
    assert await chosen.target.read_file("x", root=chosen.root, limit=9) == b"1"
    with pytest.raises(ProtocolError, match="cannot be reached"):
        await verify_target(choose(TargetRequest("pod:other", str(tmp_path)), places).target, str(tmp_path))


BROKEN = {
    "no such pod": "def Pod(name): raise OSError('no such pod')",
    "it lacks name": "class Pod:\n    def __init__(self, name): pass",
    "No module named": "import nowhere.to.be.found",
}


@pytest.mark.parametrize("why", BROKEN)
def test_a_broken_target_plugin_is_reported(install: Install, places: OwnDirectories, why: str) -> None:
    install("pods", BROKEN[why])
    with pytest.raises(ProtocolError, match=why) as refused:
        choose(TargetRequest("pod:web", "/srv"), places)
    assert refused.value.code == "SANDBOX_UNAVAILABLE"


def test_a_plugin_proves_no_level_and_cannot_use_an_invalid_name(install: Install, places: OwnDirectories) -> None:
    install("pods", TARGET)
    with pytest.raises(ProtocolError, match="cannot be proven"):
        choose(TargetRequest("pod:web", "/srv", "container"), places)
    with pytest.raises(ProtocolError, match="container name"):
        choose(TargetRequest("pod:web --privileged", "/srv"), places)
