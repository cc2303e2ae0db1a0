"""`buddy acp`, driven by a raw client over stdio: every line is checked against the published schema."""

import re

import pytest

from buddy.editor.diffs import fenced
from tests.harness.acp_client import COMPLETE, AcpClient, RefusedError, choose, later
from tests.harness.home import Home
from tests.harness.processes import wait_until
from tests.harness.scripts import section, shell, write_config, write_script

HOST = ("--sandbox", "host")


def pending_approval(home: Home) -> str:
    found = re.search(r"appr_\w+", home.run("approvals", "list", "--json").out)
    assert found
    return found[0]


def test_a_prompt_is_answered_with_streamed_updates(home: Home) -> None:
    with AcpClient(home.work, home.env) as editor:
        welcome = editor.initialize()
        assert welcome["protocolVersion"] == 1 and welcome["agentInfo"]["name"] == "buddy"
        session = editor.new()["sessionId"]
        assert editor.prompt(session, "hello there") == "end_turn"
        assert editor.text() == "hello yourself"
        assert editor.text("agent_thought_chunk") == "a greeting"
        assert editor.of("usage_update")
        assert [update["title"] for update in editor.of("session_info_update")] == ["hello there"]
    listed = home.run("session", "list")
    assert session[-6:] in listed.out and "hello there" in listed.out


def test_initialize_is_answered_without_a_daemon(home: Home) -> None:
    with AcpClient(home.work, home.env, "--socket", "/nonexistent/nobody.sock") as editor:
        assert editor.initialize()["agentCapabilities"]["loadSession"] is True


def test_an_approval_carries_the_whole_command(home: Home) -> None:
    with AcpClient(home.work, home.env, *HOST) as editor:
        session = editor.open()
        assert editor.prompt(session, "make it") == "end_turn"
        (asked,) = editor.asked
        call = asked["toolCall"]
        assert call["title"] == "touch made && echo done" and call["kind"] == "execute"
        assert call["rawInput"]["command"] == "touch made && echo done"
        assert "touch made && echo done" in call["content"][0]["content"]["text"]
        assert {option["kind"] for option in asked["options"]} == {"allow_once", "allow_always", "reject_once"}
        announced = [update for update in editor.updates if update.get("toolCallId") == call["toolCallId"]]
        assert announced[0]["sessionUpdate"] == "tool_call"
        assert announced[-1]["status"] == "completed" and "done" in str(announced[-1]["content"])
        assert editor.text() == "made it"
    assert (home.work / "made").exists()


def test_a_command_cannot_end_the_block_that_shows_it() -> None:
    text = "echo hi\n```\n<!--\nrm -rf ~/important\n-->```"
    shown = fenced(text)
    assert shown.startswith("````\n") and shown.endswith("\n````")
    assert text in shown


@pytest.mark.slow
def test_a_denial_reaches_the_model_and_the_turn_goes_on(home: Home) -> None:
    with AcpClient(home.work, home.env, *HOST) as editor:
        editor.answers["session/request_permission"] = choose("reject")
        assert editor.prompt(editor.open(), "make it") == "end_turn"
        assert editor.of("tool_call_update")[-1]["status"] == "failed"
    assert not (home.work / "made").exists()


@pytest.mark.slow
def test_an_editor_that_cannot_ask_denies_with_that_reason(home: Home) -> None:
    with AcpClient(home.work, home.env, *HOST) as editor:
        editor.answers.clear()
        session = editor.open()
        assert editor.prompt(session, "make it") == "end_turn"
    assert "could not show the question" in home.run("session", "show", session).out
    assert not (home.work / "made").exists()


@pytest.mark.slow
def test_an_edit_is_asked_for_with_its_diff(home: Home) -> None:
    path = home.work / "a.txt"
    path.write_text("one\ntwo\nthree\n")
    with AcpClient(home.work, home.env, *HOST) as editor:
        assert editor.prompt(editor.open(), "edit it") == "end_turn"
        (asked,) = editor.asked
        diff = asked["toolCall"]["content"][0]
        assert diff == {"type": "diff", "path": str(path), "oldText": "one\ntwo\nthree\n", "newText": "one\n2\nthree\n"}
        assert asked["toolCall"]["locations"] == [{"path": str(path), "line": 1}]
        assert editor.of("tool_call_update")[-1]["content"][0] == diff
    assert path.read_text() == "one\n2\nthree\n"


def test_a_cancelled_prompt_is_answered_as_cancelled(home: Home) -> None:
    with AcpClient(home.work, home.env) as editor:
        session = editor.open()
        prompt = editor.begin_prompt(session, "slow please")
        editor.wait_until(editor.text, "the first words")
        editor.cancel(session)
        assert editor.wait(prompt) == {"stopReason": "cancelled"}
        assert editor.prompt(session, "hello again") == "end_turn"


@pytest.mark.slow
def test_a_turn_is_cancelled_while_a_question_is_open(home: Home) -> None:
    with AcpClient(home.work, home.env, *HOST) as editor:
        editor.answers["session/request_permission"] = later
        session = editor.open()
        prompt = editor.begin_prompt(session, "make it")
        editor.wait_until(lambda: editor.asked, "the question")
        editor.cancel(session)
        editor.write(id=editor.asked[0]["id"], result={"outcome": {"outcome": "cancelled"}})
        assert editor.wait(prompt) == {"stopReason": "cancelled"}
    assert "dismissed" not in home.run("session", "show", session).out


@pytest.mark.slow
def test_a_failed_run_is_an_error_that_says_why(home: Home) -> None:
    with AcpClient(home.work, home.env) as editor, pytest.raises(RefusedError, match="on fire"):
        editor.prompt(editor.open(), "fail now")


@pytest.mark.slow
def test_a_question_that_is_answered_elsewhere_is_withdrawn(home: Home) -> None:
    with AcpClient(home.work, home.env, *HOST) as editor:
        editor.answers["session/request_permission"] = later
        session = editor.open()
        prompt = editor.begin_prompt(session, "make it")
        editor.wait_until(lambda: editor.asked, "the question")
        assert home.run("approvals", "approve", pending_approval(home)).code == 0
        assert editor.wait(prompt) == {"stopReason": "end_turn"}
        assert editor.withdrawn == [editor.asked[0]["id"]]


@pytest.mark.slow
def test_an_editor_that_dies_loses_nothing(home: Home) -> None:
    with AcpClient(home.work, home.env, *HOST) as editor:
        editor.answers["session/request_permission"] = later
        session = editor.open()
        editor.begin_prompt(session, "make it")
        editor.wait_until(lambda: editor.asked, "the question")
        editor.process.kill()
    assert "touch made" in home.run("approvals", "list").out
    home.run("approvals", "approve", pending_approval(home))
    wait_until(lambda: "made it" in home.run("session", "show", session).out, "the run to end")
    assert (home.work / "made").exists()


@pytest.mark.slow
def test_a_message_sent_by_an_editor_that_is_gone_is_accepted(home: Home) -> None:
    with AcpClient(home.work, home.env) as editor:
        session = editor.open()
        editor.begin_prompt(session, "hello there")
        assert editor.process.stdin is not None
        editor.process.stdin.close()
        editor.process.wait(60)
    wait_until(lambda: "hello yourself" in home.run("session", "show", session).out, "the answer")


@pytest.mark.slow
def test_what_is_not_understood_is_refused_and_the_connection_stays(home: Home) -> None:
    with AcpClient(home.work, home.env) as editor:
        editor.write(b"this is not JSON\n[]\n{}\n\n")
        session = editor.open()
        errors = [message["error"]["code"] for message in editor.received if message.get("id") is None]
        assert errors == [-32700, -32600, -32600]
        refused_calls: list[tuple[str, dict[str, object], int]] = [
            ("session/prompt", {"sessionId": "sess_nope", "prompt": []}, -32002),
            ("session/new", {"cwd": "relative", "mcpServers": []}, -32602),
            ("session/set_mode", {"sessionId": session, "modeId": "yolo"}, -32602),
            ("session/prompt", {"sessionId": session, "prompt": []}, -32602),
        ]
        for method, params, code in refused_calls:
            with pytest.raises(RefusedError) as refused:
                editor.call(method, **params)
            assert refused.value.code == code
        assert editor.prompt(session, "hello") == "end_turn"


@pytest.mark.slow
def test_terminals_are_for_display(home: Home) -> None:
    with AcpClient(home.work, home.env, *HOST, capabilities=COMPLETE) as editor:
        assert editor.prompt(editor.open(), "make it") == "end_turn"
        (call,) = editor.of("tool_call")
        terminal = call["_meta"]["terminal_info"]["terminal_id"]
        assert call["content"][0] == {"type": "terminal", "terminalId": terminal}
        output = [update["_meta"] for update in editor.of("tool_call_update") if "_meta" in update]
        assert "".join(meta["terminal_output"]["data"] for meta in output if "terminal_output" in meta) == "done\r\n"
        assert output[-1]["terminal_exit"] == {"terminal_id": terminal, "exit_code": 0, "signal": None}
        assert not [asked for asked in editor.asked if asked["method"].startswith("terminal/")]


@pytest.mark.slow
def test_a_to_do_list_is_the_plan(home: Home) -> None:
    with AcpClient(home.work, home.env) as editor:
        assert editor.prompt(editor.open(), "plan it") == "end_turn"
        (plan,) = editor.of("plan")
        assert [(entry["content"], entry["status"]) for entry in plan["entries"]] == [
            ("look", "completed"),
            ("act", "in_progress"),
        ]
        assert editor.of("tool_call") == []


@pytest.mark.slow
def test_characters_that_deceive_are_spelled_out_in_a_question(home: Home) -> None:
    hidden = "echo \u202egpj.exe && rm -rf x"
    script = {"on": [section("^trick", shell(hidden), {"text": "tricked"})]}
    write_config(home.directory / ".config" / "buddy" / "buddy.toml", write_script(home.directory, script))
    with AcpClient(home.work, home.env, *HOST) as editor:
        editor.answers["session/request_permission"] = choose("reject")
        assert editor.prompt(editor.open(), "trick me") == "end_turn"
        (asked,) = editor.asked
        assert asked["toolCall"]["title"] == "echo \\u202egpj.exe && rm -rf x"
        assert "\\u202egpj.exe" in asked["toolCall"]["content"][0]["content"]["text"]
