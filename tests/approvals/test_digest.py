"""Digests stay what they were: an approval that was asked before an upgrade is still bound to the same call after it."""

import json

import pytest

from buddy.approvals import digest
from buddy.approvals.digest import digest_of
from buddy.errors import ToolError
from buddy.steps import PART, at_once
from buddy.targets.contract import Entry, FileStat
from buddy.targets.local import Local
from buddy.tools.arguments import parse
from buddy.tools.contract import Place
from buddy.tools.toolbox import builtin

FILES = {"/w/run.sh": b"echo hi\n", "/w/a.txt": b"one\n", "/w/.env": b"A=1\n"}
DIGESTS = [
    (
        "run_shell",
        '{"command":"sh run.sh"}',
        "host",
        "8d539ec12f0e29cca06facf567f0585157a95156639aa965bb09cbeabe4a3b7a",
    ),
    (
        "run_shell",
        '{"command":"curl x","network":true,"wait":"30s"}',
        "confined",
        "eb42f08acf39bc7f021697f47dc285b351350d65b88813c503f0da65e2a9574a",
    ),
    (
        "write_file",
        '{"path":"a.txt","content":"two\\n"}',
        "host",
        "5ce631b5646ecf6faa2e6861273db789aa241bec37e86a68dcbe0b4802c29db6",
    ),
    (
        "write_file",
        '{"path":".env","content":"x"}',
        "container",
        "7dbdf0a5a1c7260b1e8eb256155e8b3c7b31fa436f69e9fe039d00437d8d432b",
    ),
    (
        "edit_file",
        '{"path":"a.txt","old":"one","new":"1"}',
        "host",
        "a94db12ddfef54ca8daca6547330593fe2256bbed48c10391a11ebec4470bc3e",
    ),
    ("read_file", '{"path":"a.txt"}', "host", "14020f1491e14fb2a926b8ff022db89c34f035f7c7fa38be0742046bdbf3e5c8"),
    ("list_files", "{}", "host", "9626fa04326d4a44b4e5187bc2bb4ee4e9e72a6e67895fce09958e3870acf9b0"),
    ("grep", '{"pattern":"x"}', "host", "30c3d52c53e98ea864f3c4a438323d83412b1eecd0d9287a3cb26affad849760"),
    ("glob", '{"pattern":"*.py"}', "host", "e89582642f34c63b3ae12d877111af08846eea39f1a40565548883a476c07b47"),
    (
        "fetch_url",
        '{"url":"https://example.com/a?b=1"}',
        "host",
        "f77b27784fb215d65ab71a14f566a1f53f6fbbf3b93b483529c3b207efd5ca22",
    ),
    ("web_search", '{"query":"cats"}', "host", "0cdff526d3499ac07e44f4df12860d8d2a103ac30e70614eab796d6f9c6cd9f0"),
    (
        "send-keys",
        '{"literal_text":"ls","enter":true}',
        "host",
        "4fef0e675eccb073c097e11625445dad9f86d02ebf32eddce465be804bee45d5",
    ),
    ("capture-pane", "{}", "host", "d1730200088f1d6c58eca631c013cb82a888edccb111c468affab86c48d64447"),
    ("time", "{}", "host", "a51042d9fc1d544bc6da949fd8dcd705a310762695c1885a8afc25cffbe626df"),
    ("todo", "{}", "host", "e87c46d192459ef0c7cc838551b1edaab404dc8248d98acfb0b615ce9fa6ec50"),
    ("read_output", '{"output":"ab"}', "host", "219333728c56125fe3036e3f292334493ced8bfe7c4d480e6a7b595a690feda6"),
]


class Box(Local):
    """A target with a few files that exist nowhere."""

    name = "box"

    async def locate(self, path: str, *, root: str) -> str:
        return root if path == "." else path if path.startswith("/") else f"{root}/{path}"

    async def stat(self, path: str, *, root: str) -> FileStat | None:
        found = FILES.get(await self.locate(path, root=root))
        return None if found is None else FileStat(is_dir=False, size=len(found), modified_ns=1)

    async def read_file(self, path: str, *, root: str, limit: int) -> bytes:
        found = FILES.get(await self.locate(path, root=root))
        if found is None:
            raise ToolError("no such file", code="FILE_NOT_FOUND")
        return found[:limit]

    async def list_dir(self, path: str, *, root: str) -> list[Entry]:
        del path, root
        return [Entry(name.removeprefix("/w/"), is_dir=False, size=len(content)) for name, content in FILES.items()]


@pytest.mark.parametrize(("name", "arguments", "sandbox", "expected"), DIGESTS, ids=[row[0] for row in DIGESTS])
async def test_a_call_has_the_digest_it_always_had(name: str, arguments: str, sandbox: str, expected: str) -> None:
    place = Place(Box(), "/w", sandbox)
    tool = next(tool for tool in builtin() if tool.name == name)
    intent = await tool.intent(parse(name, tool.args, arguments), place)
    assert at_once(digest_of(name, arguments, intent, place)) == expected


async def test_long_arguments_are_hashed_in_steps_to_the_same_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    place, tool = Place(Box(), "/w", "host"), next(tool for tool in builtin() if tool.name == "write_file")
    arguments = json.dumps({"path": "a/é.txt", "content": 'x\n"é\\😀' * 100_000}, ensure_ascii=False)
    intent = await tool.intent(parse(tool.name, tool.args, arguments), place)
    found = digest_of(tool.name, arguments, intent, place)
    count = sum(1 for _ in iter(lambda: next(found, "done"), "done"))
    assert count >= len(arguments) // PART
    in_steps = at_once(digest_of(tool.name, arguments, intent, place))
    monkeypatch.setattr(digest, "PART", len(arguments))
    assert at_once(digest_of(tool.name, arguments, intent, place)) == in_steps
