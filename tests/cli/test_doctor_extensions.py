"""`buddy doctor` on hooks, skills and commands: which apply here, what is hidden, broken or waits for trust."""

import json
from pathlib import Path

from tests.harness.home import Home


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def doctor(home: Home) -> str:
    return " ".join(home.run("doctor").out.split())


def test_extensions_are_listed_with_what_is_wrong_with_them(home: Home) -> None:
    home.script({"text": "hi"})
    user, skill = Path(home.env["HOME"]), "---\nname: {}\ndescription: for tests\n---\nText."
    write(user / ".agents" / "skills" / "tidy" / "SKILL.md", skill.format("tidy"))
    write(user / ".claude" / "skills" / "tidy" / "SKILL.md", skill.format("tidy"))
    write(user / ".agents" / "skills" / "broken" / "SKILL.md", "no front matter")
    write(user / ".agents" / "commands" / "greet.md", "Say hello to $1.")
    write(home.work / ".claude" / "skills" / "theirs" / "SKILL.md", skill.format("theirs"))
    entry = {"matcher": "Bash", "hooks": [{"type": "command", "command": "true"}]}
    write(user / ".config" / "buddy" / "hooks.json", json.dumps({"hooks": {"PreToolUse": [entry]}}))
    write(home.work / ".claude" / "settings.json", json.dumps({"hooks": {"Stop": [entry], "Setup": [entry]}}))
    said = doctor(home)
    assert "PreToolUse 1" in said and "/greet" in said
    assert "both have the name 'tidy'" in said and "'description' is missing" in said
    assert ".claude/skills is ignored until the folder is trusted" in said
    assert ".claude/settings.json is ignored until the folder is trusted" in said
    assert home.run("trust", ".").code == 0
    said = doctor(home)
    assert "theirs" in said and "Stop 1; ignored: Setup" in said and "until the folder is trusted" not in said


def test_a_broken_hook_is_said_to_guard(home: Home) -> None:
    home.script({"text": "hi"})
    broken = {"hooks": {"PreToolUse": [{"matcher": "(", "hooks": [{"type": "command", "command": "true"}]}]}}
    write(Path(home.env["HOME"]) / ".config" / "buddy" / "hooks.json", json.dumps(broken))
    said = doctor(home)
    assert "is not a regular expression" in said
    assert "calls that it guards are asked about until it is corrected" in said
