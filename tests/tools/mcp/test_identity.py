"""What a remembered permission for a server's tool is bound to."""

from typing import Any

import pytest
from msgspec.structs import replace

from buddy.tools.mcp.definitions import ServerDefinition
from buddy.tools.mcp.tool import identity

DEFINED = ServerDefinition(
    "db",
    "sh",
    ("-c", "a b"),
    env=(("DB", "dev"),),
    cwd="/w",
    url="https://h/mcp?tenant=staging",
    headers=(("X-Team", "one"),),
    origin="/w/.mcp.json",
    fingerprint="x",
)


@pytest.mark.parametrize(
    "change",
    [
        {"command": "bash"},
        {"args": ("-c", "a", "b")},
        {"env": (("DB", "prod"),)},
        {"env": (("DB", "dev"), ("NODE_OPTIONS", "--require ./other.js"))},
        {"cwd": "/w/other"},
        {"url": "https://h/mcp?tenant=prod"},
        {"headers": (("X-Team", "two"),)},
        {"fingerprint": "y"},
    ],
)
def test_always_is_given_for_all_that_decides_what_a_server_does(change: dict[str, Any]) -> None:
    before, after = identity(DEFINED, "tool"), identity(replace(DEFINED, **change), "tool")
    assert before != after and before.partition("-")[0] == after.partition("-")[0]
    assert identity(DEFINED, "other tool") != before


def test_always_outlives_settings_that_do_not_change_what_a_tool_does() -> None:
    tuned = replace(DEFINED, timeout_seconds=5.0, disabled_tools=("x",), enabled_tools=("tool",))
    assert identity(tuned, "tool") == identity(DEFINED, "tool")
    for moved in (replace(DEFINED, origin="/v/.mcp.json"), replace(DEFINED, name="other")):
        assert identity(moved, "tool").partition("-")[0] != identity(DEFINED, "tool").partition("-")[0]
