"""Who places the sessions of a fleet. Each failure is one test, which both placements must pass.

A module whose fleets may be placed by either uses the fixture `placement`: its tests run once with each. With Temporal
they take longer, and what they prove is mostly below it, so those are marked `slow`, and most of them `long`.
"""

import pytest

from tests.fleet.nodes import FleetOf
from tests.harness.temporal import Temporal, settings

ALWAYS_WITH_TEMPORAL = {
    "test_a_killed_node_loses_its_runs_to_another",
    "test_a_paused_node_does_nothing_more_when_it_wakes",
    "test_a_drained_node_hands_over",
    "test_a_promoted_standby_is_a_pause",
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "placement" in metafunc.fixturenames:
        marks = pytest.mark.slow if metafunc.function.__name__ in ALWAYS_WITH_TEMPORAL else pytest.mark.long
        placements = ["postgres", pytest.param("temporal", marks=marks)]
        metafunc.parametrize("placement", placements, indirect=True)


@pytest.fixture
def placement(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Has all fleets of a test placed by PostgreSQL or by Temporal; returns its name."""
    name: str = request.param
    if name == "temporal":
        server: Temporal = request.getfixturevalue("temporal")
        monkeypatch.setattr(FleetOf, "cluster", settings(server))
    return name
