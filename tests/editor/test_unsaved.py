"""Text that is not saved in the editor: what the model reads and changes is what the person sees."""

from pathlib import Path

import pytest

from buddy.unsaved_text import unsaved_text
from tests.harness.acp_client import COMPLETE, AcpClient, Json
from tests.harness.home import Home
from tests.harness.scripts import section, shell, write_config, write_script

HOST = ("--sandbox", "host", "--approve", "all")
READ = {"name": "read_file", "args": {"path": "a.txt"}}
EDIT = {"name": "edit_file", "args": {"path": "a.txt", "old": "two\n", "new": "2\n"}}
WRITE = {"name": "write_file", "args": {"path": "a.txt", "content": "all new\n"}}


@pytest.fixture
def home(home: Home) -> Home:
    script = {
        "on": [
            section("^read then write", {"calls": [READ]}, {"calls": [WRITE]}, {"text": "done"}),
            section("^read", {"calls": [READ]}, {"text": "read"}),
            section("^edit", {"calls": [EDIT]}, {"calls": [READ]}, {"text": "edited"}),
            section("^write", {"calls": [WRITE]}, {"text": "written"}),
            section("^append", shell("echo four >> a.txt"), {"calls": [READ]}, {"text": "appended"}),
        ]
    }
    write_config(home.directory / ".config" / "buddy" / "buddy.toml", write_script(home.directory, script))
    (home.work / "a.txt").write_text("one\ntwo\n")
    return home


class Editor(AcpClient):
    """An editor with `a.txt` open: it shows `buffer`, and never looks at the disk again."""

    def __init__(self, home: Home, buffer: str, capabilities: Json = COMPLETE) -> None:
        super().__init__(home.work, home.env, *HOST, capabilities=capabilities)
        self.buffer = buffer
        self.answers["fs/read_text_file"] = lambda _: {"content": self.buffer}
        self.answers["fs/write_text_file"] = self._write

    def results(self) -> list[str]:
        """What the model got, by call."""
        ended = ("completed", "failed")
        return [one["rawOutput"]["text"] for one in self.of("tool_call_update") if one.get("status") in ended]

    def _write(self, params: Json) -> Json:
        self.buffer = params["content"]
        return {}


def test_the_model_reads_the_text_in_the_editor(home: Home) -> None:
    with Editor(home, "one\ntwo\nthree\n") as editor:
        session = editor.open()
        assert editor.prompt(session, "read it") == "end_turn"
        assert editor.asked == [
            {"method": "fs/read_text_file", "id": 1, "sessionId": session, "path": str(home.work / "a.txt")}
        ]
        (result,) = editor.results()
        assert result.startswith("one\ntwo\nthree\n[") and "not saved" in result
        editor.buffer = "one\ntwo\n"
        assert editor.prompt(session, "read it") == "end_turn"
        assert editor.results()[-1] == "one\ntwo"
    assert "not saved yet" in home.run("session", "export", session).out


def test_an_edit_keeps_what_was_not_saved_and_the_editor_shows_it(home: Home) -> None:
    with Editor(home, "zero\none\ntwo\n") as editor:
        assert editor.prompt(editor.open(), "edit it") == "end_turn"
        assert editor.buffer == (home.work / "a.txt").read_text() == "zero\none\n2\n"
        assert "were not saved are saved with it" in editor.results()[0]
        assert editor.results()[1] == "zero\none\n2"


@pytest.mark.slow
def test_an_editor_that_takes_no_text_is_not_overwritten(home: Home) -> None:
    capabilities = {"fs": {"readTextFile": True, "writeTextFile": False}}
    with Editor(home, "zero\none\ntwo\n", capabilities) as editor:
        assert editor.prompt(editor.open(), "edit it") == "end_turn"
        assert "ask the user to save" in editor.results()[0]
    assert (home.work / "a.txt").read_text() == "one\ntwo\n"


@pytest.mark.slow
def test_a_whole_file_replaces_unsaved_text_only_if_the_model_has_read_it(home: Home) -> None:
    with Editor(home, "mine\n") as editor:
        session = editor.open()
        assert editor.prompt(session, "write it") == "end_turn"
        assert "read it first" in editor.results()[0] and (home.work / "a.txt").read_text() == "one\ntwo\n"
        assert editor.prompt(session, "read then write") == "end_turn"
        assert editor.buffer == (home.work / "a.txt").read_text() == "all new\n"


@pytest.mark.slow
def test_an_editor_that_has_not_noticed_a_change_is_not_believed(home: Home) -> None:
    with Editor(home, "one\ntwo\n") as editor:
        session = editor.open()
        assert editor.prompt(session, "edit it") == "end_turn"
        assert editor.results()[-1] == "one\n2" and editor.buffer == "one\ntwo\n"
        assert editor.prompt(session, "read it") == "end_turn"
        assert editor.results()[-1] == "one\n2"
        assert editor.prompt(session, "append") == "end_turn"
        assert editor.results()[-1] == "one\n2\nfour"


@pytest.mark.slow
@pytest.mark.parametrize("answer", [None, {}, {"content": 5}, {"content": "x" * 2_000_000}, {"content": "\ud800"}])
def test_an_editor_that_gives_no_usable_answer_leaves_what_is_on_disk(home: Home, answer: Json | None) -> None:
    with Editor(home, "") as editor:
        if answer is None:
            del editor.answers["fs/read_text_file"]
        else:
            editor.answers["fs/read_text_file"] = lambda _: answer
        assert editor.prompt(editor.open(), "read it") == "end_turn"
        assert editor.results() == ["one\ntwo"]


@pytest.mark.slow
def test_a_silent_editor_delays_one_call_and_other_clients_read_the_disk(home: Home) -> None:
    with Editor(home, "") as editor:
        editor.answers["fs/read_text_file"] = lambda _: None
        session = editor.open()
        assert editor.prompt(session, "read it") == "end_turn"
        assert editor.prompt(session, "read it") == "end_turn"
        assert editor.results() == ["one\ntwo"] * 2 and len(editor.asked) == 1
    assert "one" in home.run("exec", "--session", session, "read it", "--stream-json").out


@pytest.mark.parametrize(
    ("saved", "shown", "unsaved"),
    [
        (b"a\nb\n", "a\nb\n", None),
        (b"a\nb\n", "a\nb", None),
        (b"a\r\nb\r\n", "a\nb\n", None),
        (b"\xef\xbb\xbfa\n", "a\n", None),
        (b"\xff\xfe", "a\n", None),
        (b"a\n", "\ud800", None),
        (b"a\r\nb\r\n", "a\nc\n", b"a\r\nc\r\n"),
        (b"\xef\xbb\xbfa\n", "b", b"\xef\xbb\xbfb\n"),
        (b"a", "b", b"b"),
        (b"", "b\n", b"b\n"),
    ],
)
def test_only_a_difference_that_saving_would_write_counts(saved: bytes, shown: str, unsaved: bytes | None) -> None:
    assert unsaved_text(saved, shown) == unsaved


@pytest.mark.slow
def test_paths_outside_the_workspace_are_not_asked_for(home: Home, tmp_path: Path) -> None:
    outside = tmp_path / "secret.txt"
    outside.write_text("on disk\n")
    script = {
        "on": [section("^read", {"calls": [{"name": "read_file", "args": {"path": str(outside)}}]}, {"text": "x"})]
    }
    write_config(home.directory / ".config" / "buddy" / "buddy.toml", write_script(home.directory, script))
    with Editor(home, "in the editor\n") as editor:
        assert editor.prompt(editor.open(), "read it") == "end_turn"
        assert editor.results() == ["on disk"]
        assert editor.asked == []
