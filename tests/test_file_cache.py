"""Values that depend on files: computed once, and again after every change that could matter."""

from collections.abc import Callable
from pathlib import Path

import pytest

from buddy import file_cache, named_files
from buddy.approvals.hook_files import hooks_digest
from buddy.approvals.trust import Trust
from buddy.file_cache import Dependencies, FileCache
from buddy.tools.mcp.definitions import Definitions
from buddy.tools.mcp.servers import Servers
from buddy.tools.mcp.source import McpSource
from tests.hooks.hooking import hook, listed, write_hooks

HOOKS = ".claude/settings.json"
SERVER = '{"mcpServers": {"a": {"command": "python", "args": ["-m", "pkg.one"]}}}'


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository whose hook and server are made of several files."""
    monkeypatch.setattr(file_cache, "SETTLED_NS", -(10**12))  # what a test has just written counts as old
    work = tmp_path / "work"
    (work / ".git").mkdir(parents=True)
    (work / "pkg").mkdir()
    (work / "pkg" / "one.py").write_text("from pkg import two\n")
    (work / "pkg" / "two.py").write_text("")
    write_hooks(work / HOOKS, listed({"PreToolUse": hook("python -m pkg.one")}))
    (work / ".mcp.json").write_text(SERVER)
    return work


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    found: list[str] = []
    real = named_files.read_regular

    def count(path: str, limit: int, *, follow: bool = False) -> bytes:
        found.append(path)
        return real(path, limit, follow=follow)

    monkeypatch.setattr(named_files, "read_regular", count)
    return found


CHANGES: list[Callable[[Path], object]] = [
    lambda work: (work / "pkg" / "two.py").write_text("x = 1\n"),
    lambda work: (work / "pkg" / "__init__.py").write_text(""),
    lambda work: (work / "pkg" / "two.py").unlink(),
    lambda work: (work / "pkg" / "two").mkdir() or (work / "pkg" / "two" / "__init__.py").write_text(""),
    lambda work: (work / "pkg.py").write_text(""),
]


@pytest.mark.parametrize("change", CHANGES)
def test_a_digest_is_computed_again_only_after_a_change(
    folder: Path, reads: list[str], change: Callable[[Path], object]
) -> None:
    cache = FileCache(lambda looked: hooks_digest(folder, looked))
    first = cache.get()
    assert first == hooks_digest(folder) and reads
    reads.clear()
    assert cache.get() == first and cache.is_current() and reads == []
    change(folder)
    assert not cache.is_current()
    assert cache.get() == hooks_digest(folder) != first


def test_what_had_just_changed_is_not_relied_on(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("one")
    computed: list[str] = []

    def compute(looked: Dependencies) -> str:
        looked.add(str(tmp_path / "file"))
        computed.append((tmp_path / "file").read_text())
        return computed[-1]

    cache = FileCache(compute)
    cache.get()
    cache.get()
    assert computed == ["one", "one"] and not cache.is_current()


def test_trust_and_servers_are_read_once_while_nothing_changes(folder: Path, tmp_path: Path, reads: list[str]) -> None:
    trust = Trust(tmp_path)
    trust.set(str(folder), trusted=True)
    source = McpSource(Servers(lambda _: True, "test"), Definitions, trust.is_trusted, {})
    first = source.define(str(folder), is_local=True)
    assert [server.name for server in first.servers] == ["a"] and reads
    reads.clear()
    assert source.define(str(folder), is_local=True) == first and reads == []
    (folder / "pkg" / "two.py").write_text("evil")
    assert source.define(str(folder), is_local=True).servers == ()


def test_a_file_that_changes_while_it_is_judged_has_no_effect(folder: Path, tmp_path: Path) -> None:
    trust = Trust(tmp_path)
    trust.set(str(folder), trusted=True)

    def is_trusted(root: str) -> bool:
        answer = trust.is_trusted(root)
        (folder / ".mcp.json").write_text(SERVER.replace("pkg.one", "evil"))
        return answer

    source = McpSource(Servers(lambda _: True, "test"), Definitions, is_trusted, {})
    assert source.define(str(folder), is_local=True).servers == ()
