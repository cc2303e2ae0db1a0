"""Finding skills and commands: what people have works, what is broken is named, and looking is bounded."""

import os
from pathlib import Path

import pytest

from buddy.tools.skills.discovery import MAX_DEPTH, find_commands, find_skills
from buddy.tools.skills.front_matter import split_front_matter


def write_skill(folder: Path, head: str, body: str = "Do it.") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "SKILL.md").write_text(f"---\n{head}\n---\n\n{body}\n")
    return folder


@pytest.mark.parametrize(
    ("head", "description"),
    [
        ("description: plain text", "plain text"),
        ('description: "quoted: with \\"colon\\""', 'quoted: with "colon"'),
        ("description: 'it''s quoted'", "it's quoted"),
        ("description: use when: unquoted colon", "use when: unquoted colon"),
        ("description: >\n  folded\n  text", "folded text"),
        ("description: |-\n  a block\n\n  scalar", "a block scalar"),
        ("description: continued\n  on the next line", "continued on the next line"),
        ("name: x\nmetadata:\n  a: b\ndescription: after a map", "after a map"),
        ("\ufeffdescription: x", ""),
        ("no colon here", ""),
    ],
)
def test_front_matter(head: str, description: str) -> None:
    fields, body = split_front_matter(f"---\r\n{head}\r\n---\r\nBody\r\n".replace("\n\r\n", "\n"))
    assert fields.get("description", "") == description
    assert body == "Body"


@pytest.mark.parametrize("text", ["", "no head", "---\nnever: closed", "---"])
def test_a_text_without_a_head_is_all_body(text: str) -> None:
    assert split_front_matter(text) == ({}, text)


def test_skills_are_found_and_the_project_comes_first(tmp_path: Path) -> None:
    project, user = tmp_path / "project", tmp_path / "user"
    write_skill(project / "pdf", "name: pdf\ndescription: the project's")
    write_skill(user / "pdf", "name: pdf\ndescription: the user's")
    write_skill(user / "group" / "deep", "name: deep\ndescription: nested")
    found = find_skills([project], [user, tmp_path / "missing"])
    assert [(skill.name, skill.owner) for skill in found.skills] == [("deep", "user"), ("pdf", "project")]
    assert found.skills[1].description == "the project's"
    [problem] = found.problems
    assert "hidden by" in problem
    assert str(user / "pdf") in problem


@pytest.mark.parametrize(
    ("head", "names", "problem"),
    [
        ("name: other\ndescription: x", ["other"], "differs from its folder"),
        ("name: not a name\ndescription: x", ["folder"], "not a name"),
        ("name: folder", [], "'description' is missing"),
        (f"name: folder\ndescription: {'x' * 2000}", ["folder"], "too long"),
        ("description: x", ["folder"], None),
    ],
)
def test_what_is_wrong_with_a_skill_is_named(tmp_path: Path, head: str, names: list[str], problem: str | None) -> None:
    write_skill(tmp_path / "folder", head)
    found = find_skills([], [tmp_path])
    assert [skill.name for skill in found.skills] == names
    assert [(problem or "nothing") in said for said in found.problems] == ([True] if problem else [])


def test_hostile_folders_end(tmp_path: Path) -> None:
    write_skill(tmp_path / "good", "description: x")
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "linked").symlink_to(
        write_skill(tmp_path.parent / f"{tmp_path.name}-away", "name: linked\ndescription: y")
    )
    (tmp_path / "fifo").mkdir()

    os.mkfifo(tmp_path / "fifo" / "SKILL.md")
    (tmp_path / "binary").mkdir()
    (tmp_path / "binary" / "SKILL.md").write_bytes(b"\xff\xfe\0")
    (tmp_path / "huge").mkdir()
    (tmp_path / "huge" / "SKILL.md").write_bytes(b"x" * (1024 * 1024 + 1))
    deep = tmp_path.joinpath(*"abcdef"[: MAX_DEPTH + 1])
    write_skill(deep, "description: too deep")
    found = find_skills([], [tmp_path])
    assert [skill.name for skill in found.skills] == ["good", "linked"]
    assert len(found.problems) == 4


def test_who_may_activate_a_skill(tmp_path: Path) -> None:
    write_skill(tmp_path / "one", "description: x\ndisable-model-invocation: true")
    write_skill(tmp_path / "two", "description: x\nuser-invocable: false")
    one, two = find_skills([], [tmp_path]).skills
    assert (one.by_model, one.by_user) == (False, True)
    assert (two.by_model, two.by_user) == (True, False)


def test_commands_are_named_by_their_path(tmp_path: Path) -> None:
    (tmp_path / "team").mkdir()
    (tmp_path / "review.md").write_text("---\ndescription: look at it\nargument-hint: <file>\n---\nReview $1")
    (tmp_path / "team" / "ship.md").write_text("Ship it")
    (tmp_path / "not a name.md").write_text("x")
    (tmp_path / "notes.txt").write_text("x")
    found = find_commands([tmp_path], [])
    assert [(one.name, one.description, one.hint) for one in found.commands] == [
        ("review", "look at it", "<file>"),
        ("team:ship", "", ""),
    ]
    assert len(found.problems) == 1
