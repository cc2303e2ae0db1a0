"""The scripted model says what its script says, decided by the prompt alone."""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import msgspec
import pytest

from buddy.errors import ProviderError, UserError
from buddy.models.contract import (
    AssistantItem,
    Item,
    Piece,
    Prompt,
    Reply,
    TextDelta,
    ThinkingDelta,
    TokenUsage,
    ToolItem,
    UserItem,
)
from buddy.models.script import Script, ScriptedCall, ScriptedError, ScriptedReply, Section, load_script
from buddy.models.scripted import Scripted
from buddy.protocol.shapes import ToolCallItem

TOML = """
[[replies]]
thinking = "Hm."
text = "I look around."
calls = [{ name = "list_files", args = { path = "." } }, { name = "grep", arguments = "{nope" }]

[[replies]]
text = "Three files."
usage = { input_tokens = 5, output_tokens = 2 }

[[on]]
match = "(?i)^hello"
replies = [{ text = "Hello!", truncated = true, calls = [{ name = "f" }] }, { text = "Again." }]
"""


async def test_a_script_is_played_turn_by_turn(tmp_path: Path) -> None:
    provider = Scripted("demo", _loaded(tmp_path, "demo.toml", TOML))
    calls = (ToolCallItem("call_0_0", "list_files", '{"path":"."}'), ToolCallItem("call_0_1", "grep", "{nope"))
    history: list[Item] = [UserItem("what is here?")]
    assert await stream(provider, history) == [
        ThinkingDelta("Hm."),
        TextDelta("I "),
        TextDelta("look "),
        TextDelta("around."),
        Reply("I look around.", calls, "tool_calls", usage=TokenUsage(3, 12)),
    ]
    history += [AssistantItem("I look around.", calls), ToolItem("call_0_0", "a b c"), ToolItem("call_0_1", "error")]
    second = Reply("Three files.", usage=TokenUsage(5, 2))
    assert (await stream(provider, history))[-1] == second
    # another process, the same prompt
    assert (await stream(Scripted("demo", load_script(tmp_path / "demo.toml")), history))[-1] == second
    history.append(AssistantItem("Three files."))
    assert (await stream(provider, history))[-2:] == [TextDelta("done"), Reply("done", usage=TokenUsage(20, 1))]


async def test_a_matching_message_has_its_own_replies(tmp_path: Path) -> None:
    provider = Scripted("demo", _loaded(tmp_path, "demo.toml", TOML))
    history: list[Item] = [UserItem("x"), AssistantItem("y"), UserItem("Hello there")]
    assert (await stream(provider, history))[-1] == Reply("Hello!", (), "length", True, TokenUsage(3, 2))
    history.append(AssistantItem("Hello!"))
    assert (await said(provider, history)) == "Again."
    history.append(AssistantItem("Again."))
    assert (await said(provider, history)) == "done"


async def test_echo_repeats_what_the_user_said() -> None:
    assert (
        await said(Scripted.echo(), [UserItem("one"), AssistantItem("one"), UserItem("grün 🌲\n two")])
        == "grün 🌲\n two"
    )
    assert await said(Scripted.echo(), []) == ""


async def test_a_reply_may_fail_after_its_text() -> None:
    script = Script((ScriptedReply("a b", error=ScriptedError("lost", retryable=True, times=1)),))
    provider = Scripted("test", script)
    pieces: list[Piece] = []
    with pytest.raises(ProviderError, match="lost") as failure:
        async for piece in provider.stream(Prompt("", ())):
            pieces.append(piece)  # noqa: PERF401 - what came before the failure is what counts
    assert failure.value.retryable
    assert pieces == [TextDelta("a "), TextDelta("b")]
    assert await said(provider, []) == "a b"


async def test_pieces_wait_for_their_delay() -> None:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    await stream(Scripted("test", Script((ScriptedReply("a b c", delay=0.5),)), sleep=sleep), [])
    assert waits == [0.5, 0.5, 0.5]


def test_a_script_is_the_same_in_json(tmp_path: Path) -> None:
    script = Script(
        (ScriptedReply("Hi", calls=(ScriptedCall("f", {"x": 1}),)),), (Section("a", (ScriptedReply("b"),)),), echo=True
    )
    text = msgspec.json.encode(script).decode()
    assert _loaded(tmp_path, "a.json", text) == script
    assert _loaded(tmp_path, "b.json", '[{"text": "Hi"}]') == Script((ScriptedReply("Hi"),))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.toml", "[[replies", "invalid script"),
        ("a.toml", "[[replies]]\ntxt = 'x'", r"unknown field `txt` - at `\$\.replies\[0\]`"),
        ("a.toml", "[[replies]]\ntext = 5", "Expected `str`"),
        ("a.toml", "[[on]]\nmatch = '('\nreplies = []", "not a regular expression"),
        ("a.toml", "[[replies]]\ncalls = [{name = 'f', args = {}, arguments = ''}]", "not both"),
        ("a.json", "{", "invalid script"),
        ("a.json", "[1]", "Expected `object`"),
        ("a.toml", "\udcff", "invalid script"),
    ],
)
def test_an_error_in_a_script_is_reported(tmp_path: Path, name: str, content: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        _loaded(tmp_path, name, content)


def test_a_missing_script_is_reported(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="No such file"):
        load_script(tmp_path / "none.toml")


def _loaded(folder: Path, name: str, content: str) -> Script:
    (folder / name).write_bytes(content.encode("utf-8", "surrogateescape"))
    return load_script(folder / name)


async def said(provider: Scripted, items: Sequence[Item]) -> str:
    reply = (await stream(provider, items))[-1]
    assert isinstance(reply, Reply)
    return reply.text


async def stream(provider: Scripted, items: Sequence[Item]) -> list[Piece]:
    stream: AsyncIterator[Piece] = provider.stream(Prompt("", items))
    return [piece async for piece in stream]
