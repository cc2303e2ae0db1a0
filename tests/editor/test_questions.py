"""Questions of MCP servers in an editor: a form where it has them, choices where that is enough, else a note."""

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest
from acp import spawn_agent_process, text_block
from acp.schema import AcceptElicitationResponse, ClientCapabilities, McpServerStdio

from buddy.editor.choices import choices_of
from buddy.protocol.events import QuestionAsked
from tests.editor.test_clients import SdkClient
from tests.harness.acp_client import COMPLETE, AcpClient, Json, choose, later
from tests.harness.home import Home
from tests.harness.processes import BUDDY, PATIENCE
from tests.harness.scripts import section, write_config, write_script

HOST = ("--sandbox", "host", "--approve", "all")
SERVER = """
from typing import Annotated, Literal
from mcp.server.elicitation import ElicitationResult
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.resolve import Elicit, Resolve
from pydantic import BaseModel

server = MCPServer("shop")

class Size(BaseModel):
    size: Literal["small", "large"]

class Name(BaseModel):
    name: str

def ask_for_size() -> Elicit[Size]:
    return Elicit("How large?", Size)

def ask_for_name() -> Elicit[Name]:
    return Elicit("Who are you?", Name)

@server.tool()
async def buy(answer: Annotated[ElicitationResult[Size], Resolve(ask_for_size)]) -> str:
    return f"{answer.action} {answer.data.size if answer.action == 'accept' else None}"

@server.tool()
async def greet(answer: Annotated[ElicitationResult[Name], Resolve(ask_for_name)]) -> str:
    return f"{answer.action} {answer.data.name if answer.action == 'accept' else None}"

server.run()
"""


@pytest.fixture
def server(home: Home, tmp_path: Path) -> Json:
    script = {
        "on": [
            section(f"^{tool}", {"calls": [{"name": f"mcp__shop__{tool}", "args": {}}]}, {"text": "done"})
            for tool in ("buy", "greet")
        ]
    }
    write_config(home.directory / ".config" / "buddy" / "buddy.toml", write_script(home.directory, script))
    program = tmp_path / "shop.py"
    program.write_text(SERVER)
    return {"name": "shop", "command": sys.executable, "args": [str(program)], "env": []}


def open_with(editor: AcpClient, server: Json) -> str:
    editor.initialize()
    return editor.new(mcpServers=[server])["sessionId"]


def result_of(editor: AcpClient) -> str:
    (text,) = [one["rawOutput"]["text"] for one in editor.of("tool_call_update") if "rawOutput" in one]
    return text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("answer", "result"),
    [
        ({"action": "accept", "content": {"size": "large"}}, "accept large"),
        ({"action": "decline"}, "decline None"),
        ({"action": "cancel"}, "cancel None"),
    ],
)
def test_an_editor_with_forms_shows_one(home: Home, server: Json, answer: Json, result: str) -> None:
    with AcpClient(home.work, home.env, *HOST, capabilities=COMPLETE) as editor:
        editor.answers["elicitation/create"] = lambda _: answer
        assert editor.prompt(open_with(editor, server), "buy it") == "end_turn"
        (asked,) = [one for one in editor.asked if one["method"] == "elicitation/create"]
        assert asked["mode"] == "form" and "How large?" in asked["message"]
        assert result_of(editor) == result


@pytest.mark.slow
@pytest.mark.parametrize(
    ("option", "result"),
    [("choice-1", "accept large"), ("decline", "decline None"), ("unknown", "cancel None")],
)
def test_an_editor_without_forms_is_asked_to_choose(home: Home, server: Json, option: str, result: str) -> None:
    with AcpClient(home.work, home.env, *HOST) as editor:
        editor.answers["session/request_permission"] = choose(option)
        assert editor.prompt(open_with(editor, server), "buy it") == "end_turn"
        (asked,) = editor.asked
        assert [one["name"] for one in asked["options"]] == ["small", "large", "Decline"]
        assert "How large?" in asked["toolCall"]["title"]
        assert result_of(editor) == result


@pytest.mark.slow
def test_what_has_to_be_written_is_answered_elsewhere(home: Home, server: Json) -> None:
    with AcpClient(home.work, home.env, *HOST) as editor:
        session = open_with(editor, server)
        prompt = editor.begin_prompt(session, "greet me")
        editor.wait_until(lambda: f"buddy attach {session}" in editor.text("agent_thought_chunk"), "the note")
        assert "Who are you?" in editor.text("agent_thought_chunk") and editor.asked == []
        editor.cancel(session)
        assert editor.wait(prompt) == {"stopReason": "cancelled"}


@pytest.mark.slow
def test_a_choice_that_is_open_when_the_turn_is_stopped_is_withdrawn(home: Home, server: Json) -> None:
    with AcpClient(home.work, home.env, *HOST) as editor:
        editor.answers["session/request_permission"] = later
        session = open_with(editor, server)
        prompt = editor.begin_prompt(session, "buy it")
        editor.wait_until(lambda: editor.asked, "the question")
        editor.cancel(session)
        assert editor.wait(prompt) == {"stopReason": "cancelled"}
        editor.wait_until(lambda: editor.withdrawn == [editor.asked[0]["id"]], "the question to be withdrawn")


class Answering(SdkClient):
    async def create_elicitation(self, **_: Any) -> AcceptElicitationResponse:
        return AcceptElicitationResponse(action="accept", content={"size": "small"})


@pytest.mark.slow
async def test_the_python_sdk_answers_a_form(home: Home, server: Json) -> None:
    client, (program, *arguments) = Answering(), [*BUDDY, "acp", *HOST]
    async with (
        asyncio.timeout(PATIENCE),
        spawn_agent_process(client, program, *arguments, env=home.env, cwd=home.work, use_unstable_protocol=True) as (  # pyright: ignore[reportArgumentType] - it has what is called
            agent,
            _,
        ),
    ):
        announced = ClientCapabilities.model_validate({"elicitation": {"form": {}}})
        await agent.initialize(protocol_version=1, client_capabilities=announced)
        shop = McpServerStdio(name=server["name"], command=server["command"], args=server["args"], env=[])
        opened = await agent.new_session(cwd=str(home.work), mcp_servers=[shop])
        done = await agent.prompt(session_id=opened.session_id, prompt=[text_block("buy it")])
        assert done.stop_reason == "end_turn"
        assert any("accept small" in str(update) for update in client.updates)


@pytest.mark.parametrize(
    ("schema", "names"),
    [
        ({"ok": {"type": "boolean", "title": "Go on"}}, ["Yes: Go on", "No: Go on"]),
        ({"a": {"type": "string", "enum": ["x", "y"], "enumNames": ["An x", "A y"]}}, ["An x", "A y"]),
        ({"a": {"type": "string", "oneOf": [{"const": "x", "title": "An x"}, 5, {}]}}, ["An x"]),
        ({"a": {"type": "string", "enum": [str(number) for number in range(20)]}}, []),
        ({"a": {"type": "boolean"}, "b": {"type": "boolean"}}, []),
        ({"a": {"type": "string", "enum": "x"}}, []),
        ({"a": {"type": "integer"}}, []),
    ],
)
def test_a_form_of_one_field_with_few_values_can_be_chosen_from(schema: Json, names: list[str]) -> None:
    asked = QuestionAsked(
        question_id="ques_1", source="s", message="m", mode="form", schema={"type": "object", "properties": schema}
    )
    assert [one.name for one in choices_of(asked)] == names


def test_an_address_to_visit_can_be_confirmed() -> None:
    asked = QuestionAsked(question_id="ques_1", source="s", message="m", mode="url", url="https://example.com")
    assert [one.answer for one in choices_of(asked)] == [{"action": "accept"}]
