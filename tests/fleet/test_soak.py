"""A fleet that people use while its nodes and its database fail; the long version is `make fleet`."""

from pathlib import Path

import pytest

from tests.fleet.soak import Plan, report, soak


@pytest.mark.slow
async def test_nothing_is_lost_or_done_twice_while_nodes_fail_at_random(tmp_path: Path) -> None:
    plan = Plan(sessions=6, seconds=15, nodes=3, fault_seconds=1.5, pause_seconds=1, seed=3)
    outcome = await soak(plan, tmp_path)
    print(report(plan, outcome))  # noqa: T201 - the figures are the point
    assert outcome.violations == []
    assert outcome.faults
