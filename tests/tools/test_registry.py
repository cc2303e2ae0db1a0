from typing import Annotated

import pytest
from msgspec import Meta, Struct

from buddy.config.settings import ToolSettings
from buddy.errors import ToolError
from buddy.protocol.codes import Source, Tier
from buddy.protocol.intents import Intent, Other
from buddy.tools.contract import Call, Output, Place
from buddy.tools.registry import Registry
from buddy.tools.toolbox import ToolDeps, builtin, toolbox


class Range(Struct, frozen=True):
    first: Annotated[int, Meta(description="Where it starts.")]
    last: int | None = None


class GrepArgs(Struct, frozen=True):
    pattern: Annotated[str, Meta(description="What to look for.")]
    count: int = 1
    within: Range | None = None
    ranges: tuple[Range, ...] = ()


class Grep:
    name: str = "grep"
    tier: Tier = "read-only"
    source: Source = "sandbox"
    description: str = "Look for a text."
    args: type[Struct] = GrepArgs
    timeout: float | None = None

    async def intent(self, args: GrepArgs, place: Place) -> Intent:
        return Other(title="look", summary=args.pattern, shown={"root": place.root})

    async def run(self, args: GrepArgs, call: Call) -> Output:
        return Output(f"{args.pattern} for {call.call_id}")


REGISTRY = Registry((Grep(),))


def test_the_built_in_tools_are_there_with_their_tiers() -> None:
    registry = Registry(builtin())
    tiers = {spec.name: registry.get(spec.name).tier for spec in registry.specs()}
    assert tiers == {
        **dict.fromkeys(
            ("capture-pane", "glob", "grep", "list_files", "read_file", "read_output", "time", "todo"), "read-only"
        ),
        **dict.fromkeys(("delegate", "edit_file", "fetch_url", "web_search", "write_file"), "side-effecting"),
        **dict.fromkeys(("run_shell", "send-keys"), "privileged"),
    }
    assert list(tiers) == sorted(tiers)
    assert all(len(spec.description) > 100 for spec in registry.specs())


def test_every_argument_of_a_built_in_tool_is_described_and_every_tool_ends_but_the_shell_and_sub_agents() -> None:
    registry = Registry(builtin())
    for spec in registry.specs():
        assert all("description" in argument for argument in spec.parameters["properties"].values()), spec.name
        assert (registry.get(spec.name).timeout is None) == (spec.name in ("delegate", "run_shell"))


def test_an_unknown_tool_is_answered_with_the_available_ones() -> None:
    with pytest.raises(
        ToolError,
        match=r"unknown tool 'grpe'\. Available: capture-pane, delegate, edit_file, fetch_url, glob, grep, list_files",
    ):
        Registry(builtin()).get("grpe")


@pytest.mark.parametrize(
    ("settings", "gone"),
    [
        (ToolSettings(shell_enabled=False), {"capture-pane", "run_shell", "send-keys"}),
        (ToolSettings(files_enabled=False), {"edit_file", "glob", "grep", "list_files", "read_file", "write_file"}),
        (ToolSettings(fetch_enabled=False), {"fetch_url"}),
        (ToolSettings(search_enabled=False), {"web_search"}),
        (ToolSettings(), set[str]()),
    ],
)
def test_a_tool_that_was_turned_off_is_neither_listed_nor_found(settings: ToolSettings, gone: set[str]) -> None:
    registry = toolbox(settings, ToolDeps())
    assert {tool.name for tool in builtin()} - {spec.name for spec in registry.specs()} == gone
    for name in gone:
        with pytest.raises(ToolError, match="unknown tool"):
            registry.get(name)


def test_two_tools_of_one_name_are_a_mistake_of_the_programmer() -> None:
    with pytest.raises(ValueError, match="grep"):
        Registry((Grep(), Grep()))


def test_a_schema_has_descriptions_no_references_and_is_closed_at_every_level() -> None:
    (spec,) = REGISTRY.specs()
    text = str(spec.parameters)
    assert "$ref" not in text and "$defs" not in text
    properties = spec.parameters["properties"]
    assert properties["pattern"] == {"type": "string", "description": "What to look for."}
    assert spec.parameters["required"] == ["pattern"]
    assert spec.parameters["additionalProperties"] is False
    inner = properties["ranges"]["items"]
    assert inner["properties"]["first"] == {"type": "integer", "description": "Where it starts."}
    assert inner["additionalProperties"] is False
    assert inner in properties["within"]["anyOf"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "grep: the arguments are not valid JSON"),
        ("[" * 100_000, "not valid JSON"),
        ('{"pattern": "\\ud800"}', "not valid JSON"),
        ("[1]", "must be one JSON object, got an array"),
        ("null", "must be one JSON object, got null"),
        ('"x"', "must be one JSON object, got a string"),
        ("{}", "grep: missing pattern"),
        ("", "grep: missing pattern"),
        ('{"pattern": null}', "grep: pattern: expected str, got null"),
        (
            '{"pattern": "x", "cuont": 1}',
            "grep: unknown argument 'cuont'; did you mean 'count'\\? it takes pattern, count",
        ),
        ('{"pattern": "x", "zzz": 1}', "grep: unknown argument 'zzz'; it takes pattern"),
        ('{"pattern": "x", "count": "1"}', "grep: count: expected int, got str"),
        ('{"pattern": "x", "count": 1.0}', "grep: count: expected int, got float"),
        ('{"pattern": "x", "count": true}', "grep: count: expected int, got bool"),
        ('{"pattern": "x", "within": {"first": "a"}}', "grep: within.first: expected int, got str"),
    ],
)
def test_wrong_arguments_are_explained(text: str, message: str) -> None:
    with pytest.raises(ToolError, match=message):
        REGISTRY.parse(REGISTRY.get("grep"), text)


def test_an_optional_argument_that_is_null_counts_as_not_given() -> None:
    parsed = REGISTRY.parse(REGISTRY.get("grep"), '{"pattern": "x", "count": null, "within": null}')
    assert parsed == GrepArgs("x")
