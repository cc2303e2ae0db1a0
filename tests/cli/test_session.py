"""`buddy session`: list, show, export and delete."""

import json
import signal
from pathlib import Path

import pytest

from buddy.cli.session import ago
from tests.harness.daemon import Daemon
from tests.harness.files import contents_of
from tests.harness.home import Home
from tests.harness.processes import wait_until
from tests.harness.scripts import shell

TALK = (shell("echo out; echo err >&2; exit 3", "I look."), {"text": "It failed."})


@pytest.mark.parametrize(
    ("milliseconds", "words"),
    [
        (-5, "just now"),
        (59_000, "just now"),
        (61_000, "1 min ago"),
        (3_599_000, "59 min ago"),
        (3_600_000, "1 hour ago"),
        (7_200_000, "2 hours ago"),
        (86_400_000, "1 day ago"),
        (864_000_000, "10 days ago"),
    ],
)
def test_times_are_reported_in_one_unit(milliseconds: int, words: str) -> None:
    assert ago(milliseconds) == words


def test_list_is_a_table_of_the_sessions_here_newest_first(home: Home) -> None:
    home.script({"text": "hi"})
    for prompt in ("first\nthing", "second"):
        home.run("exec", prompt)
    elsewhere = home.directory / "elsewhere"
    elsewhere.mkdir()
    home.run("exec", "third", "-C", str(elsewhere))
    head, *rows = home.run("session", "list").out.splitlines()
    assert head.split() == ["SESSION", "STATE", "USED", "DIRECTORY", "PROMPT"]
    assert [row[head.index("PROMPT") :] for row in rows] == ["second", "first thing"]
    assert all(row[head.index("DIRECTORY") :].startswith("~/work ") for row in rows)
    assert all(row[head.index("STATE") :].startswith("completed  just now") for row in rows)
    assert len(home.run("session", "list", "--all").out.splitlines()) == 4
    assert len(home.run("session", "list", "--all", "--limit", "1").out.splitlines()) == 2


def test_list_as_json(home: Home) -> None:
    home.script({"text": "hi"}).run("exec", "go")
    (session,) = json.loads(home.run("session", "list", "--json").out)["sessions"]
    assert (session["state"], session["prompt"], session["rootPath"]) == ("completed", "go", str(home.work))


def test_an_empty_list_says_so_on_stderr(home: Home) -> None:
    done = home.run("session", "list")
    assert (done.code, done.out) == (0, "")
    assert "no sessions in" in done.err
    assert home.run("session", "list", "--json").out == '{"sessions":[]}\n'


def test_a_limit_that_cannot_be_is_refused(home: Home) -> None:
    assert home.run("session", "list", "--limit", "0").code == 64
    assert home.run("session", "list", "--limit", "1000").code == 64


@pytest.mark.slow
def test_show_prints_the_session_with_its_seqs(home: Home) -> None:
    home.script(*TALK).run("exec", "do it", "--approve", "all", "--accept", "true")
    lines = [line.split(maxsplit=2) for line in home.run("session", "show", "last").out.splitlines()]
    told = {words[1]: words[2] for words in lines if words[0].isdigit()}
    assert told["user"] == "do it"
    assert told["call"] == 'run_shell {"command":"echo out; echo err >&2; exit 3"}'
    assert told["decided"] == "approved by policy"
    assert told["result"] == "exit code: 3"
    assert told["assistant"] == "It failed."
    assert told["check"] == "accept-1 passed"
    assert told["complete"] == "success, 1 of 1 checks passed"
    seqs = [int(words[0]) for words in lines if words[0].isdigit()]
    assert seqs == sorted(seqs)


@pytest.mark.slow
def test_show_puts_a_long_answer_back_together(home: Home) -> None:
    home.script({"text": "0123456789" * 5000 + "the end"}).run("exec", "go")
    assert "0123456789the end\n" in home.run("session", "show", "last").out


@pytest.mark.slow
def test_a_session_is_found_by_the_beginning_of_its_id(home: Home) -> None:
    home.script({"text": "hi"})
    ids = [json.loads(home.run("exec", "go", "--json").out)["sessionId"] for _ in range(2)]
    for wanted in (ids[0], ids[0][:-1], ids[0][5:-2], ids[0].removeprefix("sess_").lower()[:-1]):
        assert ids[0] in home.run("session", "show", wanted).out
    both = home.run("session", "show", ids[0][:7])
    assert both.code == 64
    assert "2 sessions start with" in both.err
    assert ids[1] in home.run("session", "show", "last").out


@pytest.mark.slow
def test_a_session_is_found_by_its_number_in_the_list_and_by_the_end_of_its_id(home: Home) -> None:
    home.script({"text": "hi"})
    ids = [json.loads(home.run("exec", "go", "--json").out)["sessionId"] for _ in range(3)]
    rows = home.run("session", "list").out.splitlines()[1:]
    assert [(row.split()[0], row.split()[4]) for row in rows] == [(ids[2], "#1"), (ids[1], "#2"), (ids[0], "#3")]
    for wanted in ("3", "#3", ids[0][-6:], ids[0][-6:].lower()):
        assert ids[0] in home.run("session", "show", wanted).out
    assert json.loads(home.run("resume", "3", "--json").out)["sessionId"] == ids[0]
    listed = json.loads(home.run("session", "list", "--json").out)["sessions"]
    assert [row["number"] for row in listed] == [1, 2, 3]
    place = [row["sessionId"] for row in listed].index(ids[1]) + 1
    assert json.loads(home.run("exec", "--session", str(place), "more", "--json").out)["sessionId"] == ids[1]
    missing = home.run("session", "show", "4")
    assert (missing.code, missing.err.splitlines()[0]) == (64, f"error: no session #4 in {home.work}")
    elsewhere = home.directory / "elsewhere"
    elsewhere.mkdir()
    assert home.run("session", "show", "1", "-C", str(elsewhere)).code == 64, "numbers are those of one directory"
    assert "#1" not in home.run("session", "list", "--all").out


@pytest.mark.slow
def test_a_copy_has_a_name_of_its_own(home: Home) -> None:
    home.script({"text": "hi"}).run("exec", "write the docs")
    assert home.run("session", "fork", "last").code == 0
    head, *rows = home.run("session", "list").out.splitlines()
    names = [row[head.index("PROMPT") :] for row in rows]
    assert sorted(names) == ["write the docs", "write the docs (fork)"]


def test_a_session_is_deleted_even_if_memory_cannot_be_opened(home: Home) -> None:
    home.script({"text": "hi"})
    assert home.run("exec", "go").code == 0
    for path in home.state.glob("memory.db*"):
        path.unlink()
    (home.state / "memory.db").mkdir()
    done = home.run("session", "delete", "last")
    assert done.code == 0, done.err
    assert "was deleted, but its entries in memory could not be removed" in done.err
    assert "no sessions" in home.run("session", "list", "--all").err


def test_nothing_that_a_deleted_session_said_is_left_in_the_state_directory(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path)
    with daemon:
        for words in ("the zebrafish swims", "another"):
            assert daemon.run("exec", words).code == 0
        wait_until(lambda: daemon.run("memory", "search", "zebrafish").out != "", "the words to be remembered")
        assert any(b"zebrafish" in content for content in contents_of(daemon.state_dir))
        listed = json.loads(daemon.run("session", "list", "--json").out)["sessions"]
        assert daemon.run("session", "delete", listed[1]["sessionId"]).code == 0
        wait_until(
            lambda: not any(b"zebrafish" in content for content in contents_of(daemon.state_dir)),
            "the words to be gone",
        )
    assert sorted(path.name for path in daemon.state_dir.iterdir() if path.name.endswith(("-wal", "-shm"))) == []


@pytest.mark.parametrize("action", ["show", "export", "delete"])
@pytest.mark.parametrize(
    "wanted", ["nope", "sess_", "sess_01ARZ3NDEKTSV4RRFFQ69G5FAV", "../../etc/passwd/and/so/on/and/on"]
)
def test_an_unknown_session_is_the_users_error(home: Home, action: str, wanted: str) -> None:
    done = home.run("session", action, wanted)
    assert (done.code, done.out) == (64, "")
    assert done.err.startswith(f"error: no session {wanted}\nhint: ")


@pytest.mark.slow
def test_a_copy_cannot_end_before_its_beginning(home: Home) -> None:
    home.script({"text": "hi"}).run("exec", "go")
    done = home.run("session", "fork", "last", "--seq", "-1")
    assert (done.code, done.err.splitlines()[0]) == (64, "error: --seq must be 0 or more")


def test_export_is_the_log_byte_for_byte(home: Home) -> None:
    home.script({"text": "größe \x1b[31m\u202e " * 200})
    streamed = home.run("exec", "go", "--stream-json")
    assert home.run("session", "export", "last").out == streamed.out


@pytest.mark.slow
def test_reading_works_while_another_process_runs_the_session(home: Home) -> None:
    script = home.script(shell("echo ready; sleep 60"))
    with script.start("exec", "go", "--approve", "all", "--stream-json") as running:
        session_id = running.wait_for("tool_output").session_id
        assert "running" in home.run("session", "list").out
        assert "echo ready; sleep 60" in home.run("session", "show", session_id).out
        assert '"tool_claimed"' in home.run("session", "export", session_id).out
        running.signal(signal.SIGINT)
        assert running.finish().code == 2


@pytest.mark.slow
def test_an_interrupted_session_is_listed_as_one(home: Home) -> None:
    script = home.script(shell("echo ready; sleep 60"))
    with script.start("exec", "go", "--approve", "all", "--stream-json") as running:
        session_id = running.wait_for("tool_output").session_id
        assert "interrupted" not in home.run("session", "list").out
    done = home.run("session", "list")
    assert done.out.splitlines()[1].split()[:2] == [session_id, "interrupted"]
    assert done.err == f"hint: buddy resume {session_id} resumes the interrupted run\n"
    (session,) = json.loads(home.run("session", "list", "--json").out)["sessions"]
    assert (session["state"], session["interrupted"]) == ("running", True)


def test_a_deleted_session_is_gone(home: Home) -> None:
    home.script({"text": "a very special answer"}).run("exec", "go")
    done = home.run("session", "delete", "last")
    assert (done.code, done.out) == (0, "")
    assert done.err.startswith("deleted sess_")
    assert home.run("session", "show", "last").code == 64
    assert b"a very special answer" not in home.everything()


@pytest.mark.slow
def test_deleting_an_interrupted_session_runs_nothing_of_it(home: Home) -> None:
    script = home.script(shell("echo ready; sleep 60"), shell("echo ran > ran"))
    with script.start("exec", "go", "--approve", "all", "--stream-json") as running:
        running.wait_for("tool_output")
    (home.directory / ".config" / "buddy" / "buddy.toml").unlink()
    assert home.run("session", "delete", "last").code == 0
    assert not (home.work / "ran").exists()
    assert home.run("session", "list").out == ""


@pytest.mark.slow
def test_a_session_is_named_archived_and_found(home: Home) -> None:
    home.script({"text": "baa"})
    for prompt in ("count the sheep", "milk the cows"):
        home.run("exec", prompt)
    renamed = home.run("session", "rename", "2", "All", "my sheep")
    assert (renamed.code, "is now called All my sheep" in renamed.err) == (0, True)
    assert "All my sheep" in home.run("session", "list").out
    refused = home.run("session", "rename", "2", "two\nlines")
    assert (refused.code, "the title contains U+000A" in refused.err) == (64, True)
    archived = home.run("session", "archive", "2")
    assert (archived.code, "--undo" in archived.err) == (0, True)
    assert "sheep" not in home.run("session", "list").out
    shown = home.run("session", "list", "--archived", "--json").out
    (row,) = json.loads(shown)["sessions"]
    assert (row["title"], row["archived"]) == ("All my sheep", True)
    found = home.run("session", "search", "SHEEP", "my").out
    assert f"{row['sessionId']}   title  All my sheep" in found
    assert "count the sheep" in home.run("session", "search", "the sheep").out
    assert home.run("resume", "--last").out == "baa\n"  # the other one
    assert home.run("session", "show", row["sessionId"][-8:]).code == 0
    assert home.run("session", "archive", row["sessionId"], "--undo").code == 0
    assert "All my sheep" in home.run("session", "list").out


def test_what_was_archived_last_is_brought_back(home: Home) -> None:
    home.script({"text": "baa"})
    ids = [json.loads(home.run("exec", "go", "--json").out)["sessionId"] for _ in range(2)]
    missing = home.run("session", "archive", "last", "--undo")
    assert (missing.code, f"no archived session in {home.work}" in missing.err) == (64, True)
    archived = home.run("session", "archive", "last")
    assert archived.err == f"archived {ids[1]}; 'buddy session archive {ids[1]} --undo' brings it back\n"
    never = home.run("session", "archive", ids[0], "--undo")
    assert (never.code, f"{ids[0]} is not archived" in never.err) == (64, True)
    undone = home.run("session", "archive", "last", "--undo")
    assert (undone.code, undone.err) == (0, f"{ids[1]} is in the list again\n")
    assert ids[1] in home.run("session", "list").out
