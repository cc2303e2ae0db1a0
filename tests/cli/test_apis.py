"""`buddy exec` over every wire, as one uses it: a real process each time, and a server that speaks the API."""

import asyncio

import msgspec
import pytest

from tests.harness.dialects import DIALECTS, KEY, Dialect, calls, says
from tests.harness.fake_model import Answer, Chunk, FakeModel, Request
from tests.harness.home import Home

SIGNATURE = "EqQBCgIYAhIM1gbcDa9GJwZA2b3hGgxBdjrkzLoky3dl1pkiMOYds+/=="
# A thought that only its server can read, as each API sends it.
SIGNED: dict[str, list[Chunk]] = {
    "completions": [{"choices": [{"delta": {"reasoning_details": [{"type": "r", "signature": SIGNATURE}]}}]}],
    "responses": [
        {"type": "response.output_item.done", "item": {"type": "reasoning", "encrypted_content": SIGNATURE}},
    ],
    "gemini": [
        {"candidates": [{"content": {"parts": [{"text": "Hm.", "thought": True, "thoughtSignature": SIGNATURE}]}}]},
    ],
    "anthropic": [
        {"type": "content_block_start", "index": 70, "content_block": {"type": "thinking", "thinking": "Hm."}},
        {"type": "content_block_delta", "index": 70, "delta": {"type": "signature_delta", "signature": SIGNATURE}},
    ],
}

every = pytest.mark.parametrize("dialect", DIALECTS, ids=[dialect.name for dialect in DIALECTS])


def settings(dialect: Dialect, model: FakeModel) -> dict[str, str]:
    return {"BUDDY_BASE_URL": model.base_url, "BUDDY_MODEL": "m", "BUDDY_API_KEY": KEY, "BUDDY_API": dialect.name}


@every
async def test_what_only_the_server_understands_returns_to_it_after_a_restart(home: Home, dialect: Dialect) -> None:
    """Signatures are kept byte for byte: within a run, and by a process that knows the session from its log alone."""
    (home.work / "a.txt").write_text("some words\n")
    arguments = msgspec.json.encode({"path": "a.txt"}).decode()
    script = [
        dialect.answer([*SIGNED[dialect.name], *calls(dialect, ("read_file", arguments))]),
        dialect.answer(says(dialect, "Done")),
        dialect.answer(says(dialect, "Again")),
    ]
    asked: list[Request] = []

    def answer(request: Request) -> Answer:
        if not request.raw:
            return Answer(status=404, body=b"{}")
        asked.append(request)
        return script[len(asked) - 1]

    async with FakeModel(answer) as model:
        env = settings(dialect, model)
        done = await asyncio.to_thread(home.run, "exec", "--approve", "all", "look", env=env)
        assert (done.code, done.out) == (0, "Done\n"), done.err
        done = await asyncio.to_thread(home.run, "exec", "-c", "and now?", env=env)
        assert (done.code, done.out) == (0, "Again\n"), done.err
    assert [request.raw.count(SIGNATURE.encode()) for request in asked] == [0, 1, 1]
    assert b"some words" in asked[1].raw
    assert {request.path for request in asked} == {dialect.path}
