"""What a command runs is found on another machine too, and without a round trip for every word of it."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

from buddy.targets.launchers import LocalLauncher
from buddy.targets.remote import Remote
from buddy.tools.contract import Place
from buddy.tools.scripts import scripts_of


class Counting(LocalLauncher):
    """This machine as if it were another, with a count of the ways there."""

    name = "ssh:counted"

    def __init__(self) -> None:
        self.ways = 0

    async def argv(self, words: Sequence[str]) -> list[str]:
        self.ways += 1
        return await super().argv(words)


async def test_words_that_are_not_files_cost_nothing(tmp_path: Path) -> None:
    launcher = Counting()
    command = "echo " + " ".join(f"word{number}" for number in range(50)) + " && make all && npm test"
    found = await scripts_of(command, str(tmp_path), Place(Remote(launcher), str(tmp_path)))
    assert (found.digests, found.complete) == ({}, True)
    assert launcher.ways == 1


async def test_what_is_there_is_bound_wherever_it_lies(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    names = ["a.sh", "sub/b.py", "Makefile"]
    for name in names:
        (tmp_path / name).write_text(name)
    (tmp_path / "link").symlink_to("a.sh")
    place = Place(Remote(Counting()), str(tmp_path))
    command = "./a.sh && python sub/../sub/b.py && make && bash ./link"
    expected = {str(tmp_path / name): hashlib.sha256(name.encode()).hexdigest() for name in names}
    assert (await scripts_of(command, str(tmp_path), place)).digests == expected
    elsewhere = await scripts_of("bash ../a.sh", str(tmp_path / "sub"), place)
    assert list(elsewhere.digests) == [str(tmp_path / "a.sh")]
