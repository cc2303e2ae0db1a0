"""What `exec` says about costs, and how `--max-cost` limits them."""

import json

import pytest

from tests.harness.home import Home
from tests.harness.scripts import Reply


def priced(home: Home, *replies: Reply) -> Home:
    """A model of a dollar per token."""
    home.script(*replies)
    config = home.directory / ".config" / "buddy" / "buddy.toml"
    config.write_text(config.read_text() + "input_price = 1e6\noutput_price = 1e6\n")
    return home


def test_a_refused_call_costs_nothing(home: Home) -> None:
    done = priced(home, {"error": {"message": "no"}}).run("exec", "go", "--json", "--max-cost", "1e9")
    shown = json.loads(done.out)
    assert (done.code, shown["outcome"], shown["costUsd"]) == (1, "failed", 0)


@pytest.mark.parametrize("limit", [(), ("--max-cost", "1e9")])
def test_a_scripted_model_costs_what_its_profile_says(home: Home, limit: tuple[str, ...]) -> None:
    shown = json.loads(priced(home, {"text": "one two three"}).run("exec", "go", "--json", *limit).out)
    assert shown["costUsd"] == shown["usage"]["inputTokens"] + shown["usage"]["outputTokens"]


def test_a_scripted_model_without_a_price_has_no_known_cost(home: Home) -> None:
    home.script({"text": "done"})
    assert json.loads(home.run("exec", "go", "--json").out)["costUsd"] is None
    assert home.run("exec", "-c", "go", "--max-cost", "1").code == 64


def test_the_cost_of_a_scripted_model_is_limited(home: Home) -> None:
    done = priced(home, {"text": "done"}).run("exec", "go", "--max-cost", "0.01")
    assert done.code == 5
    assert "the next model call needs" in done.err
