"""The wire protocols as their servers speak them, behind one interface, so that one table of cases runs against all.

for dialect in DIALECTS:
    async with FakeModel([dialect.answer(dialect.says("Hello"))]) as model, dialect.serving(model) as provider:
        ...
"""

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Protocol

import msgspec

from buddy.models.completions import Completions
from buddy.models.contract import Piece, Provider
from buddy.models.responses import Responses
from tests.harness.fake_model import Answer, Chunk, FakeModel, delta, ending

KEY = "sk-canary-5551"


class Dialect(Protocol):
    """`at` is the place of a call among the items of the answer; None leaves the field out, as some servers do."""

    name: str
    path: str
    other: str
    opens: int

    def text(self, text: str) -> list[Chunk]: ...

    def thought(self, text: str) -> list[Chunk]: ...

    def opened(self, at: int | None, call_id: str | None, name: str | None) -> list[Chunk]: ...

    def grown(self, at: int | None, call_id: str | None, part: str) -> list[Chunk]: ...

    def ends(self, finish: str, usage: Chunk | None = None) -> list[Chunk]: ...

    def usage(self, used: int, made: int, cached: int | None = None) -> Chunk: ...

    def full_body(self, text: str, *calls: tuple[str, str], usage: Chunk | None = None) -> bytes: ...

    def failed(self, message: str, code: str) -> Chunk: ...

    def answer(self, chunks: Sequence[Chunk | str], **options: Any) -> Answer: ...

    def provider(self, base_url: str, **options: Any) -> Provider: ...


class Chat:
    """Chat Completions."""

    name = "completions"
    path = "/v1/chat/completions"
    other = "responses"
    opens = 0

    def text(self, text: str) -> list[Chunk]:
        return [delta(content=text)]

    def thought(self, text: str) -> list[Chunk]:
        return [delta(reasoning_content=text)]

    def opened(self, at: int | None, call_id: str | None, name: str | None) -> list[Chunk]:
        return [delta(tool_calls=[_given(index=at, id=call_id, function=_given(name=name))])]

    def grown(self, at: int | None, call_id: str | None, part: str) -> list[Chunk]:
        return [delta(tool_calls=[_given(index=at, id=call_id, function={"arguments": part})])]

    def ends(self, finish: str, usage: Chunk | None = None) -> list[Chunk]:
        return ending(finish, usage)

    def usage(self, used: int, made: int, cached: int | None = None) -> Chunk:
        details = {"prompt_tokens_details": {"cached_tokens": cached}} if cached is not None else {}
        return {"prompt_tokens": used, "completion_tokens": made, **details}

    def full_body(self, text: str, *calls: tuple[str, str], usage: Chunk | None = None) -> bytes:
        made = [{"function": {"name": name, "arguments": arguments}} for name, arguments in calls]
        choice = {"message": {"content": text, "tool_calls": made}, "finish_reason": "tool_calls" if made else "stop"}
        return msgspec.json.encode({"choices": [choice], "usage": usage})

    def failed(self, message: str, code: str) -> Chunk:
        return {"error": {"message": message, "code": code}}

    def answer(self, chunks: Sequence[Chunk | str], **options: Any) -> Answer:
        return Answer(chunks, **options)

    def provider(self, base_url: str, **options: Any) -> Completions:
        return Completions("test", base_url, KEY, "m", 8192, **options)


class Response:
    """Responses; its streams begin with an event that says nothing and end with the complete response."""

    name = "responses"
    path = "/v1/responses"
    other = "completions"
    opens = 1

    def text(self, text: str) -> list[Chunk]:
        return [{"type": "response.output_text.delta", "item_id": "msg_0", "output_index": 9, "delta": text}]

    def thought(self, text: str) -> list[Chunk]:
        return [{"type": "response.reasoning_text.delta", "item_id": "rs_0", "output_index": 8, "delta": text}]

    def opened(self, at: int | None, call_id: str | None, name: str | None) -> list[Chunk]:
        item = _given(type="function_call", id=call_id and f"fc_{call_id}", call_id=call_id, name=name)
        return [_given(type="response.output_item.added", output_index=at, item=item)]

    def grown(self, at: int | None, call_id: str | None, part: str) -> list[Chunk]:
        kind = "response.function_call_arguments.delta"
        return [_given(type=kind, output_index=at, item_id=call_id and f"fc_{call_id}", delta=part)]

    def ends(self, finish: str, usage: Chunk | None = None) -> list[Chunk]:
        if finish == "length":
            final = {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}, "usage": usage}
            return [{"type": "response.incomplete", "response": final}]
        return [{"type": "response.completed", "response": {"status": "completed", "output": [], "usage": usage}}]

    def usage(self, used: int, made: int, cached: int | None = None) -> Chunk:
        details = {"input_tokens_details": {"cached_tokens": cached}} if cached is not None else {}
        return {"input_tokens": used, "output_tokens": made, **details}

    def full_body(self, text: str, *calls: tuple[str, str], usage: Chunk | None = None) -> bytes:
        said = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}
        made = [{"type": "function_call", "name": name, "arguments": arguments} for name, arguments in calls]
        return msgspec.json.encode({"status": "completed", "error": None, "output": [said, *made], "usage": usage})

    def failed(self, message: str, code: str) -> Chunk:
        return {"type": "response.failed", "response": {"error": {"message": message, "code": code}}}

    def answer(self, chunks: Sequence[Chunk | str], *, done: bool = False, **options: Any) -> Answer:
        opening = {"type": "response.created", "response": {"status": "in_progress", "error": None}}
        return Answer([opening, *chunks], done=done, **options)

    def provider(self, base_url: str, **options: Any) -> Responses:
        return Responses("test", base_url, KEY, "m", 8192, **options)


DIALECTS: tuple[Dialect, ...] = (Chat(), Response())


def says(dialect: Dialect, text: str, *, finish: str | None = "stop", usage: Chunk | None = None) -> list[Chunk]:
    """A reply in words, one delta each."""
    *words, last = text.split(" ")
    deltas = [chunk for word in [*(f"{word} " for word in words), last] for chunk in dialect.text(word)]
    return [*deltas, *(dialect.ends(finish, usage) if finish else [])]


def calls(dialect: Dialect, *wanted: tuple[str, str], finish: str | None = "tool_calls") -> list[Chunk]:
    """A reply that calls tools: pairs of a name and the text of its arguments."""
    made: list[Chunk] = []
    for at, (name, arguments) in enumerate(wanted):
        made += [*dialect.opened(at, f"id_{at}", name), *dialect.grown(at, f"id_{at}", arguments)]
    return [*made, *(dialect.ends(finish) if finish else [])]


@asynccontextmanager
async def serving(dialect: Dialect, model: FakeModel, **options: Any) -> AsyncGenerator[Provider]:
    """A provider for the fake model, closed at the end."""
    provider = dialect.provider(model.base_url, **options)
    try:
        yield provider
    finally:
        await provider.close()


async def collect(stream: AsyncIterator[Piece]) -> list[Piece]:
    return [piece async for piece in stream]


def _given(**fields: object) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}
