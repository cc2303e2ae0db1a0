import re
import sys
import unicodedata

import pytest

from buddy.characters import BLANKS, DECEPTIVE, HIDDEN, JOINERS, LINE, PRIVATE, UNSAFE, describe, find_deceptive, spell

# Format characters that are drawn: number signs and marks of scripts, written before what they belong to.
VISIBLE = {*range(0x600, 0x606), 0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD}


def test_every_control_format_separator_and_private_character_is_in_the_table():
    table = re.compile(f"[{LINE}{DECEPTIVE}]")
    for code in range(sys.maxunicode + 1):
        category = unicodedata.category(chr(code))
        if code != 0x20 and code not in VISIBLE and category in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp", "Zs"):
            assert table.match(chr(code)), hex(code)


def test_the_groups_of_the_table_do_not_overlap():
    groups = [re.compile(f"[{group}]") for group in (LINE, UNSAFE, JOINERS, BLANKS, PRIVATE)]
    for code in range(sys.maxunicode + 1):
        assert sum(bool(group.match(chr(code))) for group in groups) <= 1, hex(code)


# https://www.unicode.org/Public/UCD/latest/ucd/DerivedCoreProperties.txt: Default_Ignorable_Code_Point
@pytest.mark.parametrize(
    ("first", "last"),
    [
        *((0xAD, 0xAD), (0x34F, 0x34F), (0x61C, 0x61C), (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F)),
        *((0x200B, 0x200F), (0x202A, 0x202E), (0x2060, 0x206F), (0x3164, 0x3164), (0xFE00, 0xFE0F), (0xFEFF, 0xFEFF)),
        *((0xFFA0, 0xFFA0), (0xFFF0, 0xFFF8), (0x1BCA0, 0x1BCA3), (0x1D173, 0x1D17A), (0xE0000, 0xE0FFF)),
    ],
)
def test_what_unicode_calls_ignorable_is_in_the_table(first: int, last: int):
    table = re.compile(f"[{HIDDEN}{JOINERS}]")
    assert all(table.match(chr(code)) for code in range(first, last + 1))


@pytest.mark.parametrize("text", ["", "ls -l", "größe/日本語.txt", "naïve", "Ελλάδα", "a'b\"c"])
def test_ordinary_names_are_not_deceptive(text: str):
    assert find_deceptive(text) == ""


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a\u202eb", "U+202E RIGHT-TO-LEFT OVERRIDE"),
        ("a\u034fb", "U+034F COMBINING GRAPHEME JOINER"),
        ("a\U000e0041", "U+E0041 TAG LATIN CAPITAL LETTER A"),
        ("a\ufff9", "U+FFF9 INTERLINEAR ANNOTATION ANCHOR"),
        ("a\xa0b", "U+00A0 NO-BREAK SPACE"),
        ("a\u2800b", "U+2800 BRAILLE PATTERN BLANK"),
        ("two\nlines", "U+000A control character"),
        ("a\x1b[2J", "U+001B control character"),
        ("a\x7f", "U+007F control character"),
        ("a\udc80", "U+DC80 unknown character"),
        ("a\u0378", "U+0378 unknown character"),
        ("a\ue0b0", "U+E0B0 unknown character"),
        ("e\u0301", "normal form"),
        ("\u212b", "normal form"),
    ],
)
def test_a_deceptive_name_is_named(text: str, why: str):
    assert why in find_deceptive(text)


def test_a_character_is_spelled_as_a_string_would_spell_it():
    assert [spell(character) for character in "\x1b\u202e\U000e0041"] == ["\\x1b", "\\u202e", "\\U000e0041"]
    assert describe("\u200d") == "U+200D ZERO WIDTH JOINER"
