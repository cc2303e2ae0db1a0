"""A home whose model knows a few things to do, and whose daemon is stopped in the end."""

from collections.abc import Generator
from pathlib import Path

import pytest

from tests.harness.home import Home
from tests.harness.scripts import section, shell, write_config, write_script

EDIT = {"name": "edit_file", "args": {"path": "a.txt", "old": "two\n", "new": "2\n"}}
TODO = {
    "name": "todo",
    "args": {"items": [{"text": "look", "status": "completed"}, {"text": "act", "status": "in_progress"}]},
}


@pytest.fixture
def home(tmp_path: Path) -> Generator[Home, None, None]:
    home = Home(tmp_path / "home")
    script = {
        "on": [
            section("^hello", {"thinking": "a greeting", "text": "hello yourself"}),
            section("^make", shell("touch made && echo done"), {"text": "made it"}),
            section("^edit", {"calls": [EDIT]}, {"text": "edited"}),
            section("^plan", {"calls": [TODO]}, {"text": "planned"}),
            section("^slow", {"text": "one two three four " * 500, "delay": 0.05}),
            section("^wait", shell("sleep 60"), {"text": "waited"}),
            section("^show", {"text": "seen"}),
            section("^fail", {"text": "", "error": {"message": "the model is on fire"}}),
        ]
    }
    write_config(home.directory / ".config" / "buddy" / "buddy.toml", write_script(home.directory, script))
    yield home
    home.run("daemon", "stop")
