"""File names that are no ordinary text: one name is one line for the model, and works as it is shown."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from buddy.characters import LINE, UNSAFE
from buddy.errors import ToolError
from buddy.tools.contract import Call
from buddy.tools.edit_file import EditFile, EditFileArgs
from buddy.tools.glob import FindFiles, GlobArgs
from buddy.tools.grep import Grep, GrepArgs
from buddy.tools.list_files import ListFiles, ListFilesArgs
from buddy.tools.names import quote, unquote
from buddy.tools.read_file import ReadFile, ReadFileArgs
from buddy.tools.write_file import WriteFile, WriteFileArgs
from tests.tools.test_search import Fixed

ODD = [
    "two\nlines",
    "tab\there",
    "esc\x1b[2J\x1b]52;c;eA==\x07",
    "c1\x9b31m",
    "carriage\rreturn",
    "del\x7f",
    'quoted "name"',
    '"a"',
    '"',
    "back\\slash\nand\\x1b",
    "right\u202eleft",
    "zero\u200bwidth",
    "line\u2028separator",
    "tag\U000e0041",
    "[more entries; list a subdirectory]\nfake (1 bytes)",
    "a\n.b\n1:value",
]
PLAIN = ["plain.txt", "ünïcode.txt", "sp ace", "back\\slash", "it's", 'a"b', "emoji👩‍👩‍👧.txt", "[REDACTED]"]


@pytest.fixture
def named(root: Path) -> Path:
    for name in (*ODD, *PLAIN):
        (root / name).write_text("value\n")
    return root


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_a_name_is_read_back_as_it_was(name: str) -> None:
    shown = quote(name)
    assert unquote(shown) == name
    assert not any(character in shown for character in "\n\r\t\x1b\x9b\u2028\u202e")


@given(st.text(f'ab"\\nxu01{LINE}\x1b\u202e'), st.text(f'ab"\\nxu01{LINE}\x1b\u202e'))
def test_two_names_are_never_shown_alike(one: str, other: str) -> None:
    assert (quote(one) == quote(other)) is (one == other)


@pytest.mark.parametrize("name", PLAIN)
def test_an_ordinary_name_is_shown_as_it_is(name: str) -> None:
    assert quote(name) == name


async def test_every_entry_of_a_listing_is_one_line(named: Path, call: Call) -> None:
    (named / "di\nr").mkdir()
    (named / "di\nr" / "in\nner").write_text("")
    lines = (await ListFiles().run(ListFilesArgs(depth=2), call)).text.split("\n")
    assert len(lines) == len(ODD) + len(PLAIN) + 2
    names = {unquote(line.removesuffix(" (6 bytes)").removesuffix(" (0 bytes)")) for line in lines}
    assert names == {*ODD, *PLAIN, "di\nr/", "di\nr/in\nner"}
    assert not set("".join(lines)) & set("\x1b\x9b\u202e\u200b\r\t")


@pytest.mark.parametrize("program", [pytest.param("rg", marks=pytest.mark.needs("rg")), "pcre", "ere"])
async def test_every_match_is_one_line_and_names_its_file(named: Path, call: Call, program: str) -> None:
    programs = Fixed(program)  # type: ignore[arg-type] - one of them
    found = (await FindFiles(programs).run(GlobArgs("*"), call)).text.split("\n")
    assert sorted(map(unquote, found)) == sorted((*ODD, *PLAIN))
    lines = (await Grep(programs).run(GrepArgs("value"), call)).text.split("\n")
    assert sorted(unquote(line.removesuffix(":1:value")) for line in lines) == sorted((*ODD, *PLAIN))
    (named / "a\nb").write_text("one\ntwo value\nthree\n")
    around = (await Grep(programs).run(GrepArgs("two value", context=1), call)).text
    assert around == '"a\\x0ab"-1-one\n"a\\x0ab":2:two value\n"a\\x0ab"-3-three'


@pytest.mark.parametrize("name", ODD)
async def test_a_file_is_read_and_changed_by_the_name_as_shown(named: Path, call: Call, name: str) -> None:
    shown = quote(name)
    assert "value" in (await ReadFile().run(ReadFileArgs(shown), call)).text
    await EditFile().run(EditFileArgs(shown, "value", "other"), call)
    assert (named / name).read_text() == "other\n"
    await WriteFile().run(WriteFileArgs(shown, "new"), call)
    assert (named / name).read_text() == "new"
    assert (await ReadFile().intent(ReadFileArgs(shown), call.place)).path == str(named / name)
    assert (await ReadFile().intent(ReadFileArgs(name), call.place)).path in (str(named / name), str(named / "a"))


async def test_a_name_that_is_not_utf8_is_listed_and_refused_with_the_next_step(root: Path, call: Call) -> None:
    (root / os.fsdecode(b"b\xffd")).write_text("value\n")
    listed = (await ListFiles().run(ListFilesArgs(), call)).text
    assert listed == '"b\\udcffd" (6 bytes)'
    assert (await Grep(Fixed("pcre")).run(GrepArgs("value"), call)).text == '"b\\udcffd":1:value'
    with pytest.raises(ToolError, match="run_shell"):
        ReadFileArgs('"b\\udcffd"')


def test_the_table_of_characters_is_the_one_for_screens() -> None:
    assert all(quote(character).startswith('"') for character in ("\x1b", "\n", "\u202e", "\ufeff", "\U000e0001"))
    assert UNSAFE
