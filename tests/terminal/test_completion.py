"""Completing the names of files."""

import subprocess
from pathlib import Path

from buddy.terminal.completion import MAX_MATCHES, Names, WorkspaceFiles

COUNT = 50_000


def test_the_last_file_of_a_large_repository_is_found(tmp_path: Path) -> None:
    _git(tmp_path, "init", "-q")
    blob = _git(tmp_path, "hash-object", "-w", "--stdin")
    names = [f"part{number % 100}/Module{number}.py" for number in range(COUNT)] + ["zoo/Last.py"]
    _git(tmp_path, "update-index", "--index-info", given="".join(f"100644 {blob}\t{name}\n" for name in names))
    files = WorkspaceFiles(str(tmp_path))
    assert files.matching("last") == ["zoo/Last.py"]
    found = files.matching("module4999")
    assert found[0] == "part99/Module4999.py"  # the shortest
    assert len(found) == 11
    assert len(files.matching("")) == MAX_MATCHES


def test_names_are_found_whatever_their_case_and_wherever_they_are() -> None:
    names = ["aa/AA.py", "İstanbul/İ.txt", "b", "zoo/aa"]  # the lower case of İ is longer
    found = {part: [name for _, name in Names(names).containing(part)] for part in ("aa", ".txt", "b", "zoo", "x/", "")}
    assert found == {
        "aa": ["aa/AA.py", "zoo/aa"],
        ".txt": ["İstanbul/İ.txt"],
        "b": ["İstanbul/İ.txt", "b"],
        "zoo": ["zoo/aa"],
        "x/": [],
        "": names,
    }
    assert [*Names(names).containing("b")] == [("i̇stanbul/i̇.txt", "İstanbul/İ.txt"), ("b", "b")]
    assert [*Names([]).containing("")] == []


def _git(folder: Path, *words: str, given: str = "") -> str:
    command = ["git", "-C", str(folder), *words]
    return subprocess.run(command, input=given, capture_output=True, text=True, check=True).stdout.strip()
