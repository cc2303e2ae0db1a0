"""A mistake in a settings file is explained with its line, in words, and with what is valid."""

import pytest

from buddy.approvals.rules import read_rules
from buddy.config.load import parse_config
from buddy.daemon.limits import read_limits
from buddy.errors import UserError
from tests.harness.home import Home

MODEL = "[models.a]\napi_base_url = 'http://127.0.0.1:9'\n"


@pytest.mark.parametrize(
    ("text", "line", "said", "hint"),
    [
        (
            f"{MODEL}context_limit = 'lots'",
            3,
            "context_limit in [models.a] must be a whole number, not text",
            "a whole",
        ),
        (f"{MODEL}context_limit = 0.5", 3, "must be a whole number, not 0.5", "a whole number"),
        ("[storage]\nkeep_days = 1.5", 2, "keep_days in [storage] must be a whole number, not 1.5", "a whole number"),
        (f"{MODEL}context_limit = 0", 3, "must be a whole number of at least 1", "a whole number"),
        (
            f"{MODEL}api = 'chat'",
            3,
            "api in [models.a] cannot be 'chat'",
            "completions, responses, anthropic, gemini, scripted",
        ),
        (f"{MODEL}retry_seconds = -1", 3, "must be a number of at least 0", "a number"),
        (
            f"{MODEL}modle = 'm'",
            3,
            "unknown key 'modle' in [models.a]. Did you mean 'model'?",
            "available: api_base_url",
        ),
        ("[agent]\ntemperature = 3", 2, "temperature in [agent] must be a number of at most 2", "a number"),
        ("[tools]\nshell_enabled = 'yes'", 2, "must be true or false, not text in quotes", "true or false"),
        ("[modles.a]", 1, "unknown table 'modles'. Did you mean 'models'?", "available: models"),
        ("[memory]\nvector_weight = 0.5", 1, "[memory]: vector_weight and text_weight must sum to 1", ""),
        ("[node]\npublic_url = 'buddy.example.com'", 1, "[node]: public_url must be a scheme and a host", ""),
        ("[node]\npublic_url = 'https://buddy.example.com/x'", 1, "such as https://buddy.example.com", ""),
    ],
)
def test_a_wrong_setting_is_explained(text: str, line: int, said: str, hint: str) -> None:
    with pytest.raises(UserError) as told:
        parse_config(text, "/x/buddy.toml")
    assert str(told.value).startswith(f"/x/buddy.toml:{line}: ")
    assert said in str(told.value)
    assert hint in told.value.hint
    assert "`" not in str(told.value)


RULES = """[[permissions.rules]]
decision = "allow"
tool = "read_file"

[[permissions.rules]]
{}
"""


@pytest.mark.parametrize(
    ("rule", "line", "said", "hint"),
    [
        ('decision = "alow"', 6, "decision in [[permissions.rules]] cannot be 'alow'", "allow, ask, deny"),
        ('decision = "ask"\nargvv = ["ls"]', 7, "unknown key 'argvv'", "argv"),
        ('decision = "ask"\nargv = "ls"', 7, "argv in [[permissions.rules]] must be a list", "a list"),
        ('argv = ["ls"]', 5, "decision is missing in [[permissions.rules]]", "allow, ask, deny"),
    ],
)
def test_a_wrong_rule_is_found_by_its_line(home: Home, rule: str, line: int, said: str, hint: str) -> None:
    path = home.script().directory / ".config" / "buddy" / "buddy.toml"
    path.write_text(path.read_text().rstrip("\n") + "\n" * 2 + RULES.format(rule))
    start = path.read_text().splitlines().index("[[permissions.rules]]")
    for command in (("exec", "hi"), ("approvals", "list")):
        done = home.run(*command)
        assert done.code == 64
        assert f"{path}:{start + line}: " in done.err
        assert said in done.err
        assert hint in done.err


def test_an_inline_rule_is_found_by_the_line_of_its_array() -> None:
    with pytest.raises(UserError, match=r"decision in .* cannot be 'nope'"):
        read_rules({"rules": [{"decision": "nope"}]})


def test_a_wrong_limit_names_the_key() -> None:
    with pytest.raises(UserError, match=r"frame in \[limits\] must be a whole number, not text in quotes"):
        read_limits({"frame": "x"})


@pytest.mark.parametrize("cost", [-1.0, float("nan"), float("inf"), float("-inf")])
def test_a_daily_cost_that_limits_nothing_is_refused(cost: float) -> None:
    wanted = r"cost_usd_per_day in \[{}\] must be a number of US dollars, 0 or more, not -?\w+"
    with pytest.raises(UserError, match=wanted.format("limits")) as refused:
        read_limits({"cost_usd_per_day": cost})
    assert "leave it out for no limit" in refused.value.hint
    with pytest.raises(UserError, match=wanted.format(r"limits\.user")):
        read_limits({"user": {"cost_usd_per_day": cost}})
    assert read_limits({"cost_usd_per_day": 0}).cost_usd_per_day == 0


def test_a_wrong_daily_cost_is_found_by_its_line(home: Home) -> None:
    path = home.script().directory / ".config" / "buddy" / "buddy.toml"
    path.write_text(path.read_text().rstrip("\n") + "\n[limits.user]\nruns = 2\ncost_usd_per_day = nan\n")
    done = home.run("exec", "hi")
    assert done.code == 64
    line = len(path.read_text().splitlines())
    assert f"{path}:{line}: cost_usd_per_day in [limits.user] must be a number of US dollars" in done.err


def test_a_state_directory_that_cannot_be_created_is_named(home: Home) -> None:
    home.script()
    for command in (("exec", "hi"), ("session", "list"), ("daemon", "start")):
        done = home.run(*command, "--state-dir", "/proc/x/y")
        assert done.code == 64
        assert "cannot create /proc/x" in done.err
        assert "--state-dir" in done.err
