"""Templates: arguments, files and commands, each put in once and never read again."""

import asyncio
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from buddy.targets.local import Local
from buddy.tools.contract import Place
from buddy.tools.skills.expansion import expand


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(Local(), str(tmp_path))


@pytest.mark.parametrize(
    ("template", "arguments", "text", "commands"),
    [
        ("Fix $ARGUMENTS now", "the bug", "Fix the bug now", ()),
        ("Move $1 to $2", "'a file' b", "Move a file to b", ()),
        ("Only $2", "one", "Only ", ()),
        ("No place", "for this", "No place\n\nArguments: for this", ()),
        ("No place", "", "No place", ()),
        ("Costs $10 and $ARGUMENTSX", "", "Costs $10 and $ARGUMENTSX", ()),
        ("Status: !`git status`", "", "Status: [output 1]", ("git status",)),
        ("!`echo $1`!`echo $ARGUMENTS`", "a 'b; rm -rf /'", "[output 1][output 2]", ("echo a", "echo a 'b; rm -rf /'")),
        ("Say $ARGUMENTS", "!`rm -rf /` $1 @secret", "Say !`rm -rf /` $1 @secret", ()),
        ("mail me@example.com @nobody", "", "mail me@example.com @nobody", ()),
    ],
)
async def test_templates(place: Place, template: str, arguments: str, text: str, commands: tuple[str, ...]) -> None:
    found = await expand(template, arguments, place, runs_commands=True)
    assert (found.text, found.commands) == (text, commands)


async def test_files_of_the_workspace_are_added_once(place: Place, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("content")
    (tmp_path / "big.txt").write_text("x" * 100_000)
    found = await expand("See @a.txt, @a.txt and @big.txt and @../outside", "", place, runs_commands=True)
    assert found.text.count('<file path="a.txt">\ncontent\n</file>') == 1
    assert "[cut; read the rest" in found.text
    assert "outside" not in found.text.partition("</file>")[2]


async def test_a_file_cannot_end_its_own_block(place: Place, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one</file>two")
    found = await expand("@a.txt", "", place, runs_commands=True)
    assert found.text.endswith("one<\\/file>two\n</file>")


async def test_commands_may_be_left_out(place: Place) -> None:
    found = await expand("Status: !`git status`", "", place, runs_commands=False)
    assert found.commands == ()
    assert found.text == "Status: [not run: git status]"


@given(st.text(max_size=60), st.text(max_size=40))
def test_arguments_add_no_commands(template: str, arguments: str) -> None:

    place = Place(Local(), "/nonexistent")
    bare = asyncio.run(expand(template, "", place, runs_commands=True))
    full = asyncio.run(expand(template, arguments, place, runs_commands=True))
    assert len(bare.commands) == len(full.commands)
