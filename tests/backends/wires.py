"""What the wire protocols require of a history, checked on the bytes that would be sent."""

from collections.abc import Sequence
from typing import Any

import msgspec

from buddy.models.completions import Messages
from buddy.models.contract import Item, Prompt
from buddy.models.gemini_items import GeminiParts, join_contents
from buddy.models.message_items import encode_blocks, join_messages
from buddy.models.response_items import encode_item
from buddy.steps import at_once


def invalid_on_any_wire(items: Sequence[Item]) -> str | None:
    """Why a server would refuse it; empty if it would not."""
    return _invalid_messages(items) or _invalid_input(items) or _invalid_blocks(items) or _invalid_contents(items)


def _invalid_messages(items: Sequence[Item]) -> str | None:
    """Chat Completions: the tool messages after an assistant message answer its calls, each exactly once."""
    sent = b"[" + b"".join(at_once(Messages("here").of(Prompt("be kind", items)))) + b"]"
    messages: list[dict[str, Any]] = msgspec.json.decode(sent)
    waiting: set[str] = set()
    for message in messages:
        if message["role"] == "tool":
            if message["tool_call_id"] not in waiting:
                return f"completions: a result for {message['tool_call_id']} that nobody waits for"
            waiting.discard(message["tool_call_id"])
            continue
        if waiting:
            return f"completions: {sorted(waiting)} have no result"
        calls: list[dict[str, Any]] = message.get("tool_calls", [])
        waiting = {call["id"] for call in calls}
        if message["role"] == "assistant" and not calls and not message["content"]:
            return "completions: an assistant message that says nothing"
    return f"completions: {sorted(waiting)} have no result" if waiting else None


def _invalid_input(items: Sequence[Item]) -> str | None:
    """Responses: each function_call has exactly one function_call_output after it, and nothing else does."""
    sent: list[dict[str, Any]] = msgspec.json.decode(
        b"[" + b",".join(at_once(encode_item(item, "here")) for item in items) + b"]"
    )
    called: list[str] = []
    answered: list[str] = []
    for item in sent:
        match item["type"]:
            case "function_call":
                called.append(item["call_id"])
            case "function_call_output":
                if item["call_id"] not in called or item["call_id"] in answered:
                    return f"responses: a result for {item['call_id']} that nobody waits for"
                answered.append(item["call_id"])
            case _:
                pass
    return None if sorted(called) == sorted(answered) else "responses: calls without a result"


def _invalid_blocks(items: Sequence[Item]) -> str | None:
    """Anthropic: roles alternate, the user begins, and the message after calls starts with a result for each."""
    encoded = [at_once(encode_blocks(item, "here", keeps_thinking=True)) for item in items]
    messages: list[dict[str, Any]] = msgspec.json.decode(
        b"[" + b"".join(join_messages(items, encoded, is_marked=True)) + b"]"
    )
    waiting: list[str] = []
    for number, message in enumerate(messages):
        blocks: list[dict[str, Any]] = message["content"]
        if message["role"] != ("assistant" if number % 2 else "user") or not blocks:
            return f"anthropic: message {number} is {message['role']}'s, or empty"
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        if sorted(results) != sorted(waiting) or any(
            block["type"] != "tool_result" for block in blocks[: len(waiting)]
        ):
            return f"anthropic: results {results} for the calls {waiting}"
        waiting = [block["id"] for block in blocks if block["type"] == "tool_use"]
        if any(block["type"] == "text" and not block["text"].strip() for block in blocks):
            return "anthropic: a blank text"
    return f"anthropic: {waiting} have no result" if waiting else None


def _invalid_contents(items: Sequence[Item]) -> str | None:
    """Gemini: roles alternate, and the content after calls has a result for each, by its name."""
    parts = GeminiParts("here")
    encoded = [at_once(parts.encode(item)) for item in items]
    contents: list[dict[str, Any]] = msgspec.json.decode(b"[" + b"".join(join_contents(items, encoded)) + b"]")
    waiting: list[tuple[str, str]] = []
    for number, content in enumerate(contents):
        if number and content["role"] == contents[number - 1]["role"]:
            return f"gemini: two contents of the {content['role']}"
        results = [part["functionResponse"] for part in content["parts"] if "functionResponse" in part]
        if sorted((result["id"], result["name"]) for result in results) != sorted(waiting):
            return f"gemini: {results} for the calls {waiting}"
        calls = [part["functionCall"] for part in content["parts"] if "functionCall" in part]
        waiting = [(call["id"], call["name"]) for call in calls]
    return f"gemini: {waiting} have no result" if waiting else None
