"""The wire protocols as their servers speak them, behind one interface, so that one table of cases runs against all.

for dialect in DIALECTS:
    async with FakeModel([dialect.answer(dialect.says("Hello"))]) as model, dialect.serving(model) as provider:
        ...
"""

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Protocol

import msgspec

from buddy.models.anthropic import Anthropic
from buddy.models.completions import Completions
from buddy.models.contract import Piece, Provider
from buddy.models.gemini import Gemini
from buddy.models.responses import Responses
from tests.harness.fake_model import Answer, Chunk, FakeModel, Request, delta, ending

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

    def sent(self, body: Chunk) -> list[str]:
        """The texts of the conversation in a request."""
        ...

    def is_streamed(self, request: Request) -> bool: ...


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

    def sent(self, body: Chunk) -> list[str]:
        return [message["content"] for message in body["messages"]]

    def is_streamed(self, request: Request) -> bool:
        return request.body.get("stream", False)


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

    def sent(self, body: Chunk) -> list[str]:
        return [part["text"] for message in body["input"] for part in message["content"]]

    def is_streamed(self, request: Request) -> bool:
        return request.body.get("stream", False)


class Claude:
    """Anthropic Messages; its streams begin with an empty message, and a delta belongs to the block at its index."""

    name = "anthropic"
    path = "/v1/messages"
    other = "completions"
    opens = 1

    def text(self, text: str) -> list[Chunk]:
        return [_block_delta(90, type="text_delta", text=text)]

    def thought(self, text: str) -> list[Chunk]:
        return [_block_delta(80, type="thinking_delta", thinking=text)]

    def opened(self, at: int | None, call_id: str | None, name: str | None) -> list[Chunk]:
        block = _given(type="tool_use", id=call_id, name=name, input={})
        return [_given(type="content_block_start", index=at, content_block=block)]

    def grown(self, at: int | None, call_id: str | None, part: str) -> list[Chunk]:  # noqa: ARG002 - no delta of this API has an id
        return [_block_delta(at, type="input_json_delta", partial_json=part)]

    def ends(self, finish: str, usage: Chunk | None = None) -> list[Chunk]:
        reason = {"length": "max_tokens", "tool_calls": "tool_use"}.get(finish, "end_turn")
        ending = _given(type="message_delta", delta={"stop_reason": reason, "stop_sequence": None}, usage=usage)
        return [ending, {"type": "message_stop"}]

    def usage(self, used: int, made: int, cached: int | None = None) -> Chunk:
        read = {"cache_read_input_tokens": cached} if cached is not None else {}
        return {"input_tokens": used - (cached or 0), "output_tokens": made, **read}

    def full_body(self, text: str, *calls: tuple[str, str], usage: Chunk | None = None) -> bytes:
        made = [
            {"type": "tool_use", "name": name, "input": msgspec.json.decode(arguments or "{}")}
            for name, arguments in calls
        ]
        content = [{"type": "text", "text": text}, *made]
        reason = "tool_use" if made else "end_turn"
        return msgspec.json.encode(_given(type="message", content=content, stop_reason=reason, usage=usage))

    def failed(self, message: str, code: str) -> Chunk:
        return {"type": "error", "error": {"type": code, "message": message}}

    def answer(self, chunks: Sequence[Chunk | str], *, done: bool = False, **options: Any) -> Answer:
        opening: Chunk = {"type": "message_start", "message": {"type": "message", "role": "assistant", "content": []}}
        return Answer([opening, *chunks], done=done, **options)

    def provider(self, base_url: str, **options: Any) -> Anthropic:
        return Anthropic("test", base_url, KEY, "m", 8192, **options)

    def sent(self, body: Chunk) -> list[str]:
        return [block["text"] for message in body["messages"] for block in message["content"]]

    def is_streamed(self, request: Request) -> bool:
        return request.body.get("stream", False)


class GoogleGemini:
    """Gemini; it sends calls complete, so their parts are put together here, and one that is not is marked as such."""

    name = "gemini"
    path = "/v1/models/m:streamGenerateContent?alt=sse"
    other = "completions"
    opens = 0

    def text(self, text: str) -> list[Chunk]:
        return [_candidate(content={"role": "model", "parts": [{"text": text}]})]

    def thought(self, text: str) -> list[Chunk]:
        part = {"text": text, "thought": True, "thoughtSignature": "c2lnbmVk"}
        return [_candidate(content={"role": "model", "parts": [part]})]

    def opened(self, at: int | None, call_id: str | None, name: str | None) -> list[Chunk]:
        return [{"opened": _given(id=call_id, name=name), "at": at}]

    def grown(self, at: int | None, call_id: str | None, part: str) -> list[Chunk]:  # noqa: ARG002 - by index here
        return [{"grown": part, "at": at}]

    def ends(self, finish: str, usage: Chunk | None = None) -> list[Chunk]:
        reason = "MAX_TOKENS" if finish == "length" else "STOP"
        return [_candidate(finishReason=reason) | _given(usageMetadata=usage)]

    def usage(self, used: int, made: int, cached: int | None = None) -> Chunk:
        thoughts = {"candidatesTokenCount": made - 1, "thoughtsTokenCount": 1} if made else {"candidatesTokenCount": 0}
        return {"promptTokenCount": used, **thoughts, **_given(cachedContentTokenCount=cached)}

    def full_body(self, text: str, *calls: tuple[str, str], usage: Chunk | None = None) -> bytes:
        made = [
            {"functionCall": {"name": name, "args": msgspec.json.decode(arguments or "{}")}}
            for name, arguments in calls
        ]
        content = {"role": "model", "parts": [{"text": text}, *made]}
        return msgspec.json.encode(_candidate(content=content, finishReason="STOP") | _given(usageMetadata=usage))

    def failed(self, message: str, code: str) -> Chunk:
        return {"error": {"message": message, "code": 400 if "invalid" in code else 503, "status": code}}

    def answer(self, chunks: Sequence[Chunk | str], *, done: bool = False, **options: Any) -> Answer:
        return Answer(_with_whole_calls(chunks), done=done, **options)

    def provider(self, base_url: str, **options: Any) -> Gemini:
        return Gemini("test", base_url, KEY, "m", 8192, **options)

    def sent(self, body: Chunk) -> list[str]:
        return [part["text"] for content in body["contents"] for part in content["parts"]]

    def is_streamed(self, request: Request) -> bool:
        return ":stream" in request.path


DIALECTS: tuple[Dialect, ...] = (Chat(), Response(), Claude(), GoogleGemini())


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


def _candidate(**fields: object) -> Chunk:
    return {"candidates": [{"index": 0, **fields}]}


def _with_whole_calls(chunks: Sequence[Chunk | str]) -> list[Chunk | str]:
    """Each call where it was opened, with all that it grew by."""
    found: list[Chunk | str] = []
    places: dict[int | None, int] = {}
    grown: dict[int, str] = {}
    for chunk in chunks:
        if isinstance(chunk, str) or not {"opened", "grown"} & chunk.keys():
            found.append(chunk)
            continue
        if "opened" in chunk:
            places[chunk["at"]] = len(found)
            found.append(chunk)
        else:
            place = places[chunk["at"]]
            grown[place] = grown.get(place, "") + chunk["grown"]
    for place in {at for at, chunk in enumerate(found) if isinstance(chunk, dict) and "opened" in chunk}:
        found[place] = _function_call(found[place], grown.get(place))
    return found


def _function_call(opened: Chunk | str, arguments: str | None) -> str:
    """The chunk as text, so that the arguments stay as they are."""
    assert isinstance(opened, dict)
    call = msgspec.json.encode(opened["opened"]).decode()
    rest = f'"args":{arguments}' if arguments is not None else ""
    if arguments == "{":
        rest = '"willContinue":true'
    joined = call[:-1] + ("," if rest and call != "{}" else "") + rest + "}"
    return f'{{"candidates":[{{"content":{{"parts":[{{"functionCall":{joined}}}]}}}}]}}'


def _block_delta(at: int | None, **delta: object) -> Chunk:
    return _given(type="content_block_delta", index=at, delta=delta)


def _given(**fields: object) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}
