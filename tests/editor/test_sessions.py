"""Sessions in an editor: loading with their history, listing, resuming, closing; modes, options and commands."""

import pytest

from tests.harness.acp_client import COMPLETE, AcpClient, RefusedError, later
from tests.harness.home import Home
from tests.harness.scripts import section, shell, write_config, write_script

HOST = ("--sandbox", "host")


def test_a_session_is_listed_loaded_with_its_history_and_continued(home: Home) -> None:
    with AcpClient(home.work, home.env, *HOST) as editor:
        session = editor.open()
        editor.prompt(session, "hello there")
        editor.prompt(session, "plan it")
        editor.prompt(session, "make it")
    with AcpClient(home.work, home.env) as editor:
        editor.initialize()
        (row,) = editor.call("session/list", cwd=str(home.work))["sessions"]
        assert (row["sessionId"], row["cwd"], row["title"]) == (session, str(home.work), "hello there")
        assert editor.call("session/list", cwd="/nowhere")["sessions"] == []
        editor.call("session/load", sessionId=session, cwd=str(home.work), mcpServers=[])
        shown = list(editor.updates)  # what came before the answer
        assert "".join(update["content"]["text"] for update in shown if "user" in update["sessionUpdate"]) == (
            "hello thereplan itmake it"
        )
        assert [update["sessionUpdate"] for update in shown if "user" not in update["sessionUpdate"]] == [
            *("session_info_update", "agent_message_chunk", "plan", "agent_message_chunk"),
            *("tool_call", "tool_call_update", "tool_call_update", "agent_message_chunk"),
        ]
        assert [update["status"] for update in shown if "status" in update] == ["pending", "in_progress", "completed"]
        assert editor.prompt(session, "hello again") == "end_turn"
        with pytest.raises(RefusedError) as refused:
            editor.call("session/load", sessionId="sess_01M7N7T5JTPG1G1SDRN1Q1ZZW6", cwd="/tmp", mcpServers=[])  # noqa: S108 - any folder
        assert refused.value.code == -32002


def test_a_session_is_resumed_without_its_history(home: Home) -> None:
    with AcpClient(home.work, home.env) as editor:
        session = editor.open()
        editor.prompt(session, "hello there")
    with AcpClient(home.work, home.env) as editor:
        editor.initialize()
        resumed = editor.call("session/resume", sessionId=session, cwd=str(home.work), mcpServers=[])
        assert resumed["modes"]["currentModeId"]
        assert editor.prompt(session, "hello again") == "end_turn"
        assert editor.text() == "hello yourself" and editor.of("user_message_chunk") == []


@pytest.mark.slow
def test_an_open_question_is_asked_again_after_loading(home: Home) -> None:
    with AcpClient(home.work, home.env, *HOST) as editor:
        editor.answers["session/request_permission"] = later
        session = editor.open()
        editor.begin_prompt(session, "make it")
        editor.wait_until(lambda: editor.asked, "the question")
        editor.process.kill()
    with AcpClient(home.work, home.env) as editor:
        editor.initialize()
        editor.call("session/load", sessionId=session, cwd=str(home.work), mcpServers=[])
        editor.wait_until(lambda: "made it" in editor.text(), "the end of the run")
        assert [asked["toolCall"]["title"] for asked in editor.asked] == ["touch made && echo done"]
    assert (home.work / "made").exists()


@pytest.mark.slow
def test_a_session_is_closed_and_deleted(home: Home) -> None:
    with AcpClient(home.work, home.env) as editor:
        session = editor.open()
        prompt = editor.begin_prompt(session, "slow please")
        editor.wait_until(editor.text, "the first words")
        assert editor.call("session/close", sessionId=session) == {}
        assert editor.wait(prompt) == {"stopReason": "cancelled"}
        with pytest.raises(RefusedError, match="not open here"):
            editor.prompt(session, "hello")
        assert editor.call("session/delete", sessionId=session) == {}
        assert editor.call("session/list")["sessions"] == []


@pytest.mark.slow
@pytest.mark.parametrize("capabilities", [{}, COMPLETE], ids=["plain", "complete"])
def test_modes_and_options_are_the_policy_plan_mode_and_the_model(home: Home, capabilities: dict[str, object]) -> None:
    with AcpClient(home.work, home.env, *HOST, capabilities=capabilities) as editor:
        editor.initialize()
        opened = editor.new()
        session = opened["sessionId"]
        assert opened["modes"]["currentModeId"] == "ask"
        assert [mode["id"] for mode in opened["modes"]["availableModes"]] == ["ask", "auto", "all", "none", "plan"]
        options = {option["id"]: option for option in opened["configOptions"]}
        assert list(options) == ["model", "policy", "plan"]
        assert options["model"]["currentValue"] == "script" and options["policy"]["currentValue"] == "ask"
        assert options["plan"]["type"] == ("boolean" if capabilities else "select")

        editor.call("session/set_mode", sessionId=session, modeId="plan")
        assert editor.of("current_mode_update")[-1]["currentModeId"] == "plan"
        changed = {option["id"]: option for option in editor.of("config_option_update")[-1]["configOptions"]}
        assert changed["plan"]["currentValue"] in (True, "on")

        off = {"type": "boolean", "value": False} if capabilities else {"value": "off"}
        editor.call("session/set_config_option", sessionId=session, configId="plan", **off)
        listed = editor.call("session/set_config_option", sessionId=session, configId="policy", value="all")
        assert [option["currentValue"] for option in listed["configOptions"][:2]] == ["script", "all"]
        assert editor.of("current_mode_update")[-1]["currentModeId"] == "all"
        assert editor.prompt(session, "make it") == "end_turn" and editor.asked == []
        editor.call("session/set_config_option", sessionId=session, configId="model", value="script")
        with pytest.raises(RefusedError):
            editor.call("session/set_config_option", sessionId=session, configId="model", value="nope")


@pytest.mark.slow
def test_commands_are_announced_after_the_answer_and_work(home: Home) -> None:
    (home.directory / ".config" / "buddy" / "commands").mkdir(parents=True)
    command = home.directory / ".config" / "buddy" / "commands" / "greet.md"
    command.write_text("---\ndescription: Greets\nargument-hint: name\n---\nhello $ARGUMENTS\n")
    path = home.work / "a.txt"
    path.write_text("one\ntwo\nthree\n")
    with AcpClient(home.work, home.env, *HOST) as editor:
        session = editor.open()
        editor.wait_until(lambda: editor.of("available_commands_update"), "the commands")
        methods = [message.get("method", "answer") for message in editor.received]
        assert methods.index("session/update") > 1  # after the answers to initialize and new
        commands = {entry["name"]: entry for entry in editor.of("available_commands_update")[0]["availableCommands"]}
        assert {"compact", "undo", "greet"} <= set(commands)
        assert commands["greet"] == {"name": "greet", "description": "Greets", "input": {"hint": "name"}}
        assert editor.prompt(session, "/greet you") == "end_turn" and editor.text() == "hello yourself"
        assert editor.prompt(session, "edit it") == "end_turn" and "2\n" in path.read_text()
        assert editor.prompt(session, "/undo") == "end_turn"
        assert path.read_text() == "one\ntwo\nthree\n" and "a.txt" in editor.text()


@pytest.mark.slow
def test_a_message_from_elsewhere_is_shown_and_a_prompt_waits_its_turn(home: Home) -> None:
    with AcpClient(home.work, home.env) as editor:
        session = editor.open()
        with home.start("exec", "--session", session, "slow please"):
            editor.wait_until(editor.text, "the first words of the other run")
            assert editor.text("user_message_chunk") == "slow please"
            prompt = editor.begin_prompt(session, "hello there")
            home.run("exec", "--session", session, "x")  # refused: the session is busy, and stays so
            editor.cancel(session)
            assert editor.wait(prompt) == {"stopReason": "cancelled"}


@pytest.mark.slow
def test_resources_of_a_prompt_are_part_of_the_message(home: Home) -> None:
    embedded = {"type": "resource", "resource": {"uri": "file:///x/lib.py", "text": "print(`1`)", "mimeType": "text/x"}}
    link = {"type": "resource_link", "uri": "file:///x/my%20notes.txt", "name": "notes"}
    with AcpClient(home.work, home.env) as editor:
        session = editor.open()
        assert editor.prompt(session, "show ", embedded, " and ", link) == "end_turn"
        with pytest.raises(RefusedError, match="audio"):
            editor.prompt(session, {"type": "audio", "data": "", "mimeType": "audio/wav"})
    shown = home.run("session", "show", session).out
    assert "show @/x/lib.py and @/x/my notes.txt" in shown and "print(`1`)" in shown


PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="  # one pixel


@pytest.mark.slow
def test_an_image_of_a_prompt_is_part_of_the_message(home: Home) -> None:
    image = {"type": "image", "data": PIXEL, "mimeType": "image/png"}
    with AcpClient(home.work, home.env) as editor:
        assert editor.initialize()["agentCapabilities"]["promptCapabilities"]["image"] is True
        session = editor.new()["sessionId"]
        assert editor.prompt(session, "show it", image) == "end_turn"
        assert editor.prompt(session, "", image) == "end_turn"
        with pytest.raises(RefusedError, match="not base64"):
            editor.prompt(session, "show it", {**image, "data": "!"})
        with pytest.raises(RefusedError) as refused:
            editor.prompt(session, "show it", {**image, "data": "aGVsbG8gd29ybGQ="})
        assert refused.value.code == -32602
        assert editor.prompt(session, "hello again") == "end_turn"  # neither has spoiled the session
        editor.call("session/load", sessionId=session, cwd=str(home.work), mcpServers=[])
        assert "show it\n[image image-1]" in editor.text("user_message_chunk")
    assert '"attachments":[{"blob":' in home.run("session", "export", session).out


@pytest.mark.slow
def test_a_buffer_that_is_not_saved_is_what_the_model_sees(home: Home) -> None:
    saved, unsaved = home.work / "saved.txt", home.work / "unsaved.txt"
    saved.write_text("as on disk\n")
    unsaved.write_text("old\n")
    texts = {str(saved): "as on disk\n", str(unsaved): "new words\n"}
    with AcpClient(home.work, home.env, capabilities=COMPLETE) as editor:
        editor.answers["fs/read_text_file"] = lambda params: {"content": texts[params["path"]]}
        session = editor.open()
        links = [{"type": "resource_link", "uri": path.as_uri(), "name": path.name} for path in (saved, unsaved)]
        assert editor.prompt(session, "show ", *links) == "end_turn"
        assert {asked["path"] for asked in editor.asked} == set(texts)
    shown = home.run("session", "show", session).out
    assert "unsaved.txt (in the editor, not saved yet)" in shown and "new words" in shown
    assert "as on disk" not in shown


@pytest.mark.slow
def test_a_sub_agents_question_is_asked_in_the_editor(home: Home) -> None:
    delegate = {"name": "delegate", "args": {"agent": "general", "task": "make it"}}
    script = {
        "on": [
            section("^delegate", {"calls": [delegate]}, {"text": "delegated"}),
            section("make it", shell("touch made"), {"text": "made it"}),
        ]
    }
    write_config(home.directory / ".config" / "buddy" / "buddy.toml", write_script(home.directory, script))
    with AcpClient(home.work, home.env, *HOST) as editor:
        session = editor.open()
        assert editor.prompt(session, "delegate it") == "end_turn"
        assert any("touch made" in asked["toolCall"]["title"] for asked in editor.asked)
    assert (home.work / "made").exists()
