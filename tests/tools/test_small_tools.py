"""The tools that need no target: the time, the list of things to do, what was kept of a long output."""

import hashlib

import pytest

from buddy.backends.native.bounds import TO_MODEL, shorten_middle
from buddy.errors import ToolError
from buddy.log.memory import MemoryLog
from buddy.scrub import Scrubber
from buddy.tools.contract import Call, Place
from buddy.tools.read_output import MAX_PART, ReadOutput, ReadOutputArgs
from buddy.tools.registry import Registry
from buddy.tools.time import Time, TimeArgs
from buddy.tools.todo import Todo, TodoArgs, TodoItem


async def test_the_time_is_given_in_several_formats(call: Call) -> None:
    text = (await Time(lambda: 1_700_000_000_007).run(TimeArgs(), call)).text
    assert text.splitlines() == [
        "UTC: Tuesday, 2023-11-14 22:13:20",
        "ISO 8601: 2023-11-14T22:13:20.007Z",
        "RFC 2822: Tue, 14 Nov 2023 22:13:20 +0000",
        "Unix seconds: 1700000000",
        "Unix milliseconds: 1700000000007",
    ]


async def test_the_list_is_replaced_as_a_whole_and_can_be_read_again(call: Call) -> None:
    todo = Todo()
    items = (TodoItem("read"), TodoItem("write\nit", "in_progress"), TodoItem("done", "completed"))
    told = (await todo.run(TodoArgs(items), call)).text
    assert told == "[ ] read\n[>] write it\n[x] done"
    assert (await todo.run(TodoArgs(), call)).text == told
    assert (await todo.run(TodoArgs(()), call)).text == "the list is empty"


async def test_each_session_has_its_own_list(call: Call) -> None:
    other = Call("call_2", Place(call.place.target, call.place.root), call.nonce, call.on_output)
    await Todo().run(TodoArgs((TodoItem("mine"),)), call)
    assert (await Todo().run(TodoArgs(), other)).text == "the list is empty"


@pytest.mark.parametrize(
    "text", ['{"items": [{"text": ""}]}', '{"items": [{"text": "x", "status": "odd"}]}', '{"items": "x"}']
)
def test_an_invalid_list_is_refused(text: str) -> None:
    registry = Registry((Todo(),))
    with pytest.raises(ToolError, match="todo: items"):
        registry.parse(registry.get("todo"), text)


async def test_a_long_output_can_be_read_on_to_its_last_character(call: Call) -> None:
    log = MemoryLog(lambda: 0)
    whole = "".join(f"Zeile {number}: äöü€𝄞\n" for number in range(4000))
    kept = await log.put_blob(whole.encode())
    call.place.outputs.add(kept)
    tool = ReadOutput(log.read_blob)
    read, offset = "", 0
    while True:
        text = (await tool.run(ReadOutputArgs(kept, offset), call)).text
        assert shorten_middle(text) is text
        part, found, rest = text.rpartition("\n[bytes ")
        read += part if found else text
        if not found:
            break
        offset = int(rest.partition("offset=")[2].removesuffix("]"))
    assert read == whole


@pytest.mark.parametrize("limit", range(16, 24))
async def test_no_part_is_cut_inside_a_character(call: Call, limit: int) -> None:
    log = MemoryLog(lambda: 0)
    whole = "a€𝄞ä" * 20
    kept = await log.put_blob(whole.encode())
    call.place.outputs.add(kept)
    for offset in range(12):
        text = (await ReadOutput(log.read_blob).run(ReadOutputArgs(kept, offset, limit), call)).text
        assert text.partition("\n[")[0] in whole and "\ufffd" not in text


async def test_an_output_that_is_not_kept_or_not_that_long_is_explained(call: Call) -> None:
    log = MemoryLog(lambda: 0)
    kept = await log.put_blob(b"short")
    tool = ReadOutput(log.read_blob)
    with pytest.raises(ToolError, match="no such output"):
        await tool.run(ReadOutputArgs(kept), call)
    call.place.outputs.add(kept)
    assert (await tool.run(ReadOutputArgs(kept), call)).text == "short"
    with pytest.raises(ToolError, match="5 bytes, so there is none at offset 5"):
        await tool.run(ReadOutputArgs(kept, 5), call)
    with pytest.raises(ToolError, match="no such output"):
        await tool.run(ReadOutputArgs("0" * 64), call)


@pytest.mark.parametrize("output", ["../../etc/passwd", "", "A" * 64, "0" * 65])
def test_an_invalid_id_is_refused(output: str) -> None:
    registry = Registry((ReadOutput(MemoryLog(lambda: 0).read_blob),))
    with pytest.raises(ToolError, match="read_output"):
        registry.parse(registry.get("read_output"), f'{{"output": "{output}"}}')


def test_what_was_cut_says_how_to_read_on_and_no_scrubber_hides_it() -> None:
    text = "ä" * 20_000
    kept = hashlib.sha256(text.encode()).hexdigest()
    shown = shorten_middle(text, output=kept)
    part = shown.partition("\n")[0]
    size = len(part.encode())
    how = f"read_output(output={kept}, offset={size}) reads on"
    assert shown == f"{part}\n[… {40_000 - 2 * size} of 40000 bytes left out; {how} …]\n{part}"
    assert TO_MODEL - 8 < len(shown.encode()) <= TO_MODEL
    assert Scrubber().text(shown) == shown
    assert MAX_PART < TO_MODEL
