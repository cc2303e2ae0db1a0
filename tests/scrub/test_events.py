"""The parts of events pass a scrubber unchanged; values next to names of secrets do not."""

import hashlib

import msgspec
import pytest

from buddy.protocol.events import (
    ApprovalReceived,
    AssistantMessage,
    EventBody,
    RunStarted,
    SessionStarted,
    StartedOptions,
    ToolCall,
    ToolClaimed,
    ToolResult,
    UserMessage,
)
from buddy.protocol.ids import Ulids
from buddy.protocol.shapes import BudgetLimits, Repo, ToolCallItem
from buddy.scrub import MARK, Scrubber

ids = Ulids()
DIGEST = hashlib.sha256(b"what runs").hexdigest()
CALL = "call_9Fz8KqPw2LmXc7RtYb4NvD3s"
ARGUMENTS = '{"path":"src/app/main2.py","old":"x = {\\"a\\": 1}"}'


def bodies() -> list[EventBody]:
    repo = Repo("/home/somebody/projects/Thing-2", "main", "main", "https://github.invalid/owner/name.git")
    return [
        SessionStarted(
            session_id=ids("sess"), state="idle", mode="interactive", provider="default",
            sandbox_provider="local", repo=repo,
        ),
        RunStarted(run_id=ids("run"), options=StartedOptions(budget=BudgetLimits(max_turns=50, max_tokens=100_000))),
        UserMessage(message_id=ids("msg"), text="Fix the tokenizer in src/Lexer2.py, see 3f2a9c1d", by="cli"),
        AssistantMessage(
            message_id=ids("msg"),
            text="I changed `TokenKey` in commit 3f2a9c1d4e5b6a7980716253443526170819aabb.",
            tool_calls=(ToolCallItem(CALL, "edit_file", ARGUMENTS),),
            finish="tool_calls",
            truncated=False,
        ),
        ToolCall(source="sandbox", tool_name="grep", args={"path": "src/Key1Store.py", "token_limit": 5}, call_id=CALL),
        ToolClaimed(call_id=CALL, attempt=1, tier="privileged", target="local", digest=DIGEST),
        ApprovalReceived(approval_id=ids("appr"), decision="approve", by="cli", call_id=CALL, digest=DIGEST),
        ToolResult(
            source="sandbox", tool_name="run_shell", duration_ms=3, is_error=False, structured_error=None, call_id=CALL,
            text=f"{DIGEST}  dist/thing-1.0-py3-none-any.whl\n[main 3f2a9c1] Add a key\n", output=DIGEST,
        ),
    ]  # fmt: skip


@pytest.mark.parametrize("body", bodies(), ids=lambda body: type(body).__name__)
def test_an_event_without_secrets_is_left_as_it_is(body: EventBody):
    tree = msgspec.to_builtins(body)
    scrubber = Scrubber()
    scrubber.register("hunter2hunter2")
    assert scrubber.tree(tree) is tree


def test_a_provider_may_number_its_calls_as_it_likes():
    tree = {"callId": "q8Zr3kVw7TnB2xLs9PdF4yHc6M", "digest": "q8Zr3kVw7TnB2xLs9PdF4yHc6M"}
    assert Scrubber().tree(tree) is tree


def test_a_field_gives_its_value_away_by_its_name():
    tree = {"args": {"password": "x", "env": {"API_TOKEN": "abc123def", "PORT": "80"}, "passwords": 3, "token": "none"}}
    masked = {"args": {"password": MARK, "env": {"API_TOKEN": MARK, "PORT": "80"}, "passwords": 3, "token": "none"}}
    assert Scrubber().tree(tree) == masked
    assert Scrubber().tree(masked) is masked


def test_a_schema_that_describes_a_password_is_left_alone():
    tree = {"properties": {"password": {"type": "string", "description": "what the user types"}}}
    assert Scrubber().tree(tree) is tree
