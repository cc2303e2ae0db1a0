"""The clients of docs/clients.md, run as they are printed against a real daemon."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.daemon import Daemon
from tests.harness.files import read_ledger

DOCUMENT = Path(__file__).parents[2] / "docs" / "clients.md"
BLOCK = re.compile(r"<!-- run: (\w+) -->\n```\w+\n(.*?)```\n", re.DOTALL)
BLOCKS: dict[str, str] = dict(BLOCK.findall(DOCUMENT.read_text()))

# What `nc -NU` does, where it is not installed.
NC = f"""#!{sys.executable}
import shutil, socket, sys
peer = socket.socket(socket.AF_UNIX)
peer.connect(sys.argv[-1])
shutil.copyfileobj(sys.stdin.buffer, peer.makefile("wb", 0))
peer.shutdown(socket.SHUT_WR)
shutil.copyfileobj(peer.makefile("rb"), sys.stdout.buffer)
"""


def test_every_client_of_the_document_is_here() -> None:
    assert set(BLOCKS) == {"ours", "plain", "shell", "websocket"}
    assert len(BLOCKS["ours"].splitlines()) <= 36


def run(daemon: Daemon, *command: str, **env: str) -> str:
    done = subprocess.run(
        command,
        env={**daemon.command_environment(), "BUDDY_SOCKET": str(daemon.socket), **env},
        cwd=daemon.workspace,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", ["ours", "plain"])
def test_a_python_client_prints_the_answer(shared: Daemon, name: str) -> None:
    printed = run(shared, sys.executable, "-c", BLOCKS[name], "count")
    assert printed.replace("\n", "") == "one two threesuccess"


def test_our_client_denies_what_it_is_asked(shared: Daemon) -> None:
    before = read_ledger(shared.workspace)
    printed = run(shared, sys.executable, "-c", BLOCKS["ours"], "make")
    assert "denied: " in printed
    assert read_ledger(shared.workspace) == before


def test_a_shell_lists_the_sessions(shared: Daemon, tmp_path: Path) -> None:
    path = os.environ["PATH"]
    if shutil.which("nc") is None:
        (tmp_path / "nc").write_text(NC)
        (tmp_path / "nc").chmod(0o700)
        path = f"{tmp_path}{os.pathsep}{path}"
    hello, listed = map(json.loads, run(shared, "sh", "-c", BLOCKS["shell"], PATH=path).splitlines())
    assert hello["payload"]["protocolVersion"] == "push.runtime.v1"
    assert listed["ok"] is True


def test_a_websocket_client_says_hello(shared: Daemon) -> None:
    printed = run(shared, sys.executable, "-c", BLOCKS["websocket"], BUDDY_PORT=str(shared.port()))
    assert json.loads(printed)["ok"] is True
