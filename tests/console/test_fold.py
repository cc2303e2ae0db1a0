"""The console's fold and the Python one agree on every log: random ones, and those of real runs."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from buddy.client.view import View
from buddy.protocol.envelopes import Event, event_of
from buddy.protocol.events import EVENTS, EventBody, RunComplete
from tests.console.conftest import Pure
from tests.harness.models import calls, says
from tests.harness.runtime import scripted_host
from tests.protocol.anything import shapes

bodies: st.SearchStrategy[EventBody] = st.one_of([shapes(kind) for kind in EVENTS.values()])
logs = st.lists(st.tuples(bodies, st.sampled_from([None, "run_1", "run_2"])), max_size=12).map(
    lambda found: [
        event_of(body, session_id="sess_1", seq=seq, ts=seq, run_id=run_id)
        for seq, (body, run_id) in enumerate(found, 1)
    ]
)


def python_view(events: list[Any]) -> dict[str, Any]:
    view = View()
    for event in events:
        view.apply(event)
    runs = {name: {camel(key): value for key, value in vars(run).items()} for name, run in view.runs.items()}
    found = {camel(key): value for key, value in vars(view).items()}
    return plain({**found, "runs": runs})


def plain(value: object) -> Any:
    """As JSON without a difference between integers and other numbers, which JavaScript does not make."""
    return json.loads(json.dumps(value), parse_int=float)


def camel(name: str) -> str:
    return re.sub(r"_(\w)", lambda found: found[1].upper(), name)


def assert_same(pure: Pure, events: list[Any]) -> dict[str, Any]:
    found = plain(pure("view", events)["view"])
    expected = python_view(events)
    shared = {key: found[key] for key in expected}
    for run_id, run in expected["runs"].items():
        shared["runs"][run_id] = {key: shared["runs"][run_id][key] for key in run}
    assert shared == expected
    return found


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(events=logs)
def test_both_folds_agree_on_any_log(pure: Pure, events: list[Event]) -> None:
    lines = [json.loads(json.dumps(event.to_json())) for event in events]
    assert_same(pure, lines)


@pytest.mark.slow
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(events=logs, data=st.data())
def test_what_is_delivered_again_changes_nothing(pure: Pure, events: list[Event], data: st.DataObject) -> None:
    lines = [json.loads(json.dumps(event.to_json())) for event in events]
    delivered: list[Any] = []
    for line in lines:
        again = data.draw(st.integers(0, len(delivered)))
        delivered += [*delivered[len(delivered) - again :], line, line]
    assert pure("view", delivered)["view"] == pure("view", lines)["view"]


async def test_a_real_run_becomes_a_timeline(pure: Pure, tmp_path: Path) -> None:
    script = (
        calls(("run_shell", {"command": "echo hello"})),
        calls(("write_file", {"path": "a.txt", "content": "one\n"})),
        says("the answer"),
    )
    async with scripted_host(tmp_path, *script) as host, host.client() as client:
        await client.start("interactive", approval_policy="all")
        await client.send("go")
        await client.wait_for(RunComplete)
        lines = [json.loads(json.dumps(event.to_json())) for event in client.received]
    view = assert_same(pure, lines)
    shown = [(item["kind"], item.get("name") or item.get("text") or item.get("outcome")) for item in view["items"]]
    assert shown == [
        ("user", "go"),
        ("call", "run_shell"),
        ("call", "write_file"),
        ("reply", "the answer"),
        ("end", "success"),
    ]
    assert [item["state"] for item in view["items"] if item["kind"] == "call"] == ["done", "done"]
    assert list(view["files"]) == ["a.txt"]
    assert len(view["turns"]) == 3


async def test_every_beginning_of_a_log_is_a_view(pure: Pure, tmp_path: Path) -> None:
    """Time travel folds a beginning of the log."""
    script = (calls(("run_shell", {"command": "true"})), says("done"))
    async with scripted_host(tmp_path, *script) as host, host.client() as client:
        await client.start("interactive", approval_policy="all")
        await client.send("go")
        await client.wait_for(RunComplete)
        lines = [json.loads(json.dumps(event.to_json())) for event in client.received]
    for end in range(len(lines) + 1):
        assert_same(pure, lines[:end])
