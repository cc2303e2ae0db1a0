"""Droid's permission requests and questions, and how they are answered."""

from pathlib import Path

import pytest

from buddy.backends.external.contract import (
    Completion,
    Message,
    Permission,
    PermissionAnswer,
    SystemNote,
    ToolEnded,
    ToolProgress,
)
from tests.backends.droid.program import conversation, requests, workspace
from tests.backends.talking import listen, no, send, until, yes

DIALECTS = pytest.mark.parametrize("mode", ["", "old", "double", "old double"])


@DIALECTS
async def test_what_is_approved_is_done(tmp_path: Path, mode: str) -> None:
    async with conversation(tmp_path, mode) as executor:
        heard = await send(executor, "run echo hi; exit 3", yes)
        asked = [event for event in heard if isinstance(event, Permission)]
        assert [(event.kind, event.command) for event in asked] == [("exec", "echo hi; exit 3")]
        ended = next(event for event in heard if isinstance(event, ToolEnded))
        assert (ended.call_id, ended.is_error) == (asked[0].call_id, True)
        assert ToolProgress(asked[0].call_id, "hi\n") in heard
        assert heard[-1] == Completion("completed", "done")


async def test_what_is_denied_is_not_done_and_the_model_hears_why(tmp_path: Path) -> None:
    async with conversation(tmp_path) as executor:
        heard = await send(executor, "run touch made", no)
        assert [event.is_error for event in heard if isinstance(event, ToolEnded)] == [True]
        assert heard[-1] == Completion("completed", "heard: That was not allowed: not that. Continue without it.")
        assert sum(isinstance(event, Completion) for event in heard) == 1
    assert not (workspace(tmp_path) / "made").exists()


async def test_a_denial_without_a_word_ends_the_turn(tmp_path: Path) -> None:
    async with conversation(tmp_path) as executor:
        heard = await send(executor, "run touch made", lambda _: PermissionAnswer(approved=False))
        assert heard[-1] == Completion("completed", "")


async def test_several_calls_in_one_question_are_done_only_if_each_is_approved(tmp_path: Path) -> None:
    async with conversation(tmp_path) as executor:
        decisions = iter([PermissionAnswer(approved=True), PermissionAnswer(approved=False, comment="no")])
        heard = await send(executor, "both touch one | touch two", lambda _: next(decisions))
        assert [event.command for event in heard if isinstance(event, Permission)] == ["touch one", "touch two"]
        assert [event.is_error for event in heard if isinstance(event, ToolEnded)] == [True, True]
        assert not list(workspace(tmp_path).glob("[ot]*"))
        await send(executor, "both touch one | touch two", yes)
        assert {path.name for path in workspace(tmp_path).glob("[ot]*")} == {"one", "two"}


async def test_a_file_is_asked_for_with_what_would_change(tmp_path: Path) -> None:
    file = workspace(tmp_path) / "a.txt"
    file.write_text("old\n")
    async with conversation(tmp_path) as executor:
        heard = await send(executor, "edit a.txt new", yes)
        asked = next(event for event in heard if isinstance(event, Permission))
        assert (asked.kind, asked.path) == ("write", str(file))
        assert "-old" in asked.details["diff"]
        assert "+new" in asked.details["diff"]
        assert file.read_text() == "new"
        created = await send(executor, "edit b.txt fresh", yes)
        asked = next(event for event in created if isinstance(event, Permission))
        assert "+fresh" in asked.details["diff"]


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("fetch http://example.org/x", [("fetch", "", "http://example.org/x")]),
        ("patch src/a.py src/b.py", [("write", "src/a.py", ""), ("write", "src/b.py", "")]),
        ("other linear___search", [("tool", "", "")]),
        ("plan build it", [("tool", "", "")]),
    ],
)
async def test_questions_are_put_in_the_words_of_our_rules(
    tmp_path: Path, text: str, kinds: list[tuple[str, str, str]]
) -> None:
    async with conversation(tmp_path) as executor:
        heard = await send(executor, text, yes)
        asked = [event for event in heard if isinstance(event, Permission)]
        assert [(event.kind, event.path, event.url) for event in asked] == kinds
        assert heard[-1] == Completion("completed", "done")


async def test_a_plan_that_was_asked_for_is_the_answer_and_nothing_is_begun(tmp_path: Path) -> None:
    async with conversation(tmp_path, plan=True) as executor:
        heard = await send(executor, "plan first this, then that", yes)
        assert not [event for event in heard if isinstance(event, Permission)]
        assert [event.text for event in heard if isinstance(event, Message)] == ["first this, then that"]
        assert heard[-1] == Completion("completed", "first this, then that")


async def test_a_session_that_plans_does_nothing_that_has_to_be_asked(tmp_path: Path) -> None:
    async with conversation(tmp_path, plan=True) as executor:
        for decide in (yes, no):
            heard = await send(executor, "run touch made", decide)
            assert [event.kind for event in heard if isinstance(event, Permission)] == ["exec"]
            assert [event.is_error for event in heard if isinstance(event, ToolEnded)] == [True]
    assert not (workspace(tmp_path) / "made").exists()


async def test_a_question_that_is_not_understood_is_answered_with_no(tmp_path: Path) -> None:
    async with conversation(tmp_path) as executor:
        heard = await send(executor, "strange thing", yes)
        assert [event.is_error for event in heard if isinstance(event, ToolEnded)] == [True]
        assert heard[-1] == Completion("completed", "")
        assert "request_permission" in str(executor.errors[-1])


async def test_a_question_to_the_user_is_shown_and_given_back(tmp_path: Path) -> None:
    async with conversation(tmp_path) as executor:
        heard = await send(executor, "question red or blue?")
        assert "red or blue?" in next(event.text for event in heard if isinstance(event, SystemNote))
        assert isinstance(heard[-1], Completion)
        assert heard[-1].text.startswith("heard: Nobody can answer questions")


async def test_an_abandoned_question_is_not_answered(tmp_path: Path) -> None:
    async with conversation(tmp_path) as executor:
        await executor.send_message("run touch made")
        asked = await until(executor, Permission)
        assert isinstance(asked, Permission)
        await executor.cancel()
        assert (await listen(executor))[-1] == Completion("cancelled", "")
        before = len(requests(tmp_path))
        await asked.reply(PermissionAnswer(approved=True))
        await send(executor, "say on")
        assert [line["type"] for line in requests(tmp_path)[before:]] == ["request"]
    assert not (workspace(tmp_path) / "made").exists()


async def test_an_answer_has_the_very_id_of_its_question(tmp_path: Path) -> None:
    async with conversation(tmp_path, "numbers") as executor:
        assert (await send(executor, "run touch made", yes))[-1] == Completion("completed", "done")
    assert (workspace(tmp_path) / "made").exists()
