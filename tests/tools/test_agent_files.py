"""Definitions of sub-agents, as people have written them for other agents."""

import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from buddy.errors import UserError
from buddy.tools.agent_files import find_agents, read_agent


def write(folder: Path, name: str, text: str) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_a_file_written_for_another_agent_is_read_as_it_is(tmp_path: Path) -> None:
    text = """---
name: code-reviewer
description: "Use it when: a change is ready"
tools: Read, Grep, Bash(git diff:*), mcp__issues__search
disallowedTools: [Write]
model: opus
color: purple
maxTurns: 12
---

You review.

---
Not front matter.
"""
    agent = read_agent(write(tmp_path, "x.md", text))
    assert (agent.name, agent.description) == ("code-reviewer", "Use it when: a change is ready")
    assert agent.tools == ("read_file", "read_output", "grep", "run_shell", "mcp__issues__search")
    assert (agent.without, agent.model, agent.max_turns) == (("write_file",), "", 12)
    assert agent.prompt == "You review.\n\n---\nNot front matter."


@pytest.mark.parametrize(
    "value", ["Read, Write", "[Read, 'Write']", "Read Write", '\n- Read\n- "Write"', "\n  - Read\n  - Write"]
)
def test_lists_have_several_forms(tmp_path: Path, value: str) -> None:
    agent = read_agent(write(tmp_path, "x.md", f"---\ndescription: x\ntools: {value}\n---\n"))
    assert agent.tools == ("read_file", "read_output", "write_file")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "has no front matter"),
        ("---\nname: x\n", "has no front matter"),
        ("---\n: nothing\n---\n", "has no front matter"),
        ("---\nname: x\n---\n", "has no description"),
        ("---\nname: ../x\ndescription: y\n---\n", "must have 1 to 64"),
        ("---\ndescription: y\nmaxTurns: many\n---\n", "is not a positive number"),
        ("---\ndescription: " + "y" * 300_000 + "\n---\n", "is larger than 256 KiB"),
    ],
)
def test_a_broken_file_says_what_is_wrong(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        read_agent(write(tmp_path, "x.md", text))


def test_the_nearest_definition_wins_and_the_others_are_named(tmp_path: Path) -> None:
    near = write(tmp_path / "near", "a.md", "---\nname: a\ndescription: near\n---\n")
    far = write(tmp_path / "far", "a.md", "---\nname: a\ndescription: far\n---\n")
    (tmp_path / "far" / "broken.md").symlink_to("/nowhere")
    (tmp_path / "far" / "pipe.md").mkdir()
    found = find_agents([str(tmp_path / "near"), str(tmp_path / "far"), str(tmp_path / "none")])
    assert [(agent.name, agent.path) for agent in found.agents] == [("a", near)]
    assert f"{far}: not used, {near} defines 'a', too" in found.problems
    assert len(found.problems) == 3


def test_an_edited_file_is_read_again(tmp_path: Path) -> None:
    write(tmp_path, "a.md", "---\nname: a\ndescription: one\n---\n")
    assert find_agents([str(tmp_path)]).agents[0].description == "one"
    write(tmp_path, "a.md", "---\nname: a\ndescription: other\n---\n")
    assert find_agents([str(tmp_path)]).agents[0].description == "other"


@given(st.text())
def test_any_text_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = tmp_path_factory.getbasetemp() / "any.md"
    for content in (text, f"---\ndescription: x\ntools: {text}\n---\n{text}"):
        path.write_bytes(content.encode(errors="surrogatepass"))
        with contextlib.suppress(UserError):
            read_agent(str(path))
