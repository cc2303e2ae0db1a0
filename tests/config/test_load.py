"""Finding and reading the file, and the errors about an invalid one."""

from pathlib import Path

import pytest

from buddy.config.load import load_config, parse_config
from buddy.config.places import Places
from buddy.config.settings import Config
from buddy.errors import UserError

WHOLE = """\
[models.fast]
api_base_url = "http://127.0.0.1:11434/v1"
api = "responses"
auth = "login"
model = "tiny"
context_limit = 32000
input_price = 1
output_price = 2.5

[models.play]
api = "scripted"
script = "demo.jsonl"

[agent]
model = "fast"
system_prompt = '''
[not a table]
key = "inside a text"
'''
max_turns = 9
temperature = 0
top_p = 0.5
approval_timeout_seconds = 10

[tools]
shell_enabled = false
shell_confirm = false

[display]
color = false

[server]
agent_runtime = "native"

[[permissions.rules]]
decision = "deny"

[limits]
queued = 5
"""


@pytest.fixture
def places(tmp_path: Path) -> Places:
    (tmp_path / "config" / "buddy").mkdir(parents=True)
    return Places(tmp_path / "config" / "buddy", tmp_path / "state", tmp_path / "sock")


def refused(text: str) -> UserError:
    with pytest.raises(UserError) as caught:
        parse_config(text, "buddy.toml")
    return caught.value


def test_every_table_is_read():
    config = parse_config(WHOLE, "buddy.toml")
    assert config.models["fast"].context_limit == 32000
    assert config.models["fast"].input_price == 1.0
    assert config.models["play"].script == "demo.jsonl"
    assert (config.agent.model, config.agent.max_turns, config.agent.temperature) == ("fast", 9, 0)
    assert config.agent.approval_timeout_seconds == 10
    assert not config.tools.shell_enabled
    assert config.tools.files_enabled
    assert config.permissions == {"rules": [{"decision": "deny"}]}
    assert config.limits == {"queued": 5}


def test_an_empty_file_and_no_file_give_the_defaults(places: Places):
    assert load_config({}, None, places) == Config()
    empty = parse_config("", "")
    assert empty == Config()
    assert empty.agent.max_turns == 50
    assert empty.server.agent_runtime == "native"


def test_max_iterations_is_an_alias_of_max_turns():
    assert parse_config("[agent]\nmax_iterations = 8", "").agent.max_turns == 8
    assert "set only one of them" in str(refused("[agent]\nmax_iterations = 8\nmax_turns = 9"))


def test_the_first_existing_file_is_used(places: Places):
    legacy = places.config_dir.parent / "agent" / "agent.toml"
    legacy.parent.mkdir()
    for number, path in enumerate((legacy, places.config_dir / "agent.toml", places.config_dir / "buddy.toml"), 1):
        path.write_text(f"[agent]\nmax_turns = {number}")
        config = load_config({}, None, places)
        assert config.agent.max_turns == number
        assert config.source == str(path)


def test_a_named_file_takes_precedence_over_the_variable_and_the_user_file(places: Places, tmp_path: Path):
    for name, turns in (("flag.toml", 1), ("variable.toml", 2), ("config/buddy/buddy.toml", 3)):
        (tmp_path / name).write_text(f"[agent]\nmax_turns = {turns}")
    env = {"BUDDY_CONFIG": str(tmp_path / "variable.toml")}
    assert load_config(env, tmp_path / "flag.toml", places).agent.max_turns == 1
    assert load_config(env, None, places).agent.max_turns == 2
    assert load_config({}, None, places).agent.max_turns == 3


def test_a_named_file_that_is_missing_is_an_error(places: Places, tmp_path: Path):
    with pytest.raises(UserError, match="no configuration file at"):
        load_config({}, tmp_path / "nowhere.toml", places)
    with pytest.raises(UserError, match="no configuration file at"):
        load_config({"BUDDY_CONFIG": str(tmp_path / "nowhere.toml")}, None, places)


def test_the_file_of_a_project_is_not_read(places: Places, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "buddy.toml").write_text("[agent]\nmax_turns = 1")
    monkeypatch.chdir(tmp_path)
    assert load_config({}, None, places) == Config()


def test_a_world_writable_file_is_refused(places: Places):
    path = places.config_dir / "buddy.toml"
    path.write_text("")
    path.chmod(0o666)
    with pytest.raises(UserError, match="is writable by other users"):
        load_config({}, None, places)


def test_a_file_that_is_not_text_is_reported_by_name(places: Places):
    (places.config_dir / "buddy.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(UserError, match=r"buddy\.toml: not UTF-8 text"):
        load_config({}, None, places)


def test_a_syntax_error_has_file_and_line():
    assert str(refused("[agent]\nmodel = \n")).startswith("buddy.toml:2: ")
    assert str(refused('[agent]\nmodel = "open')).startswith("buddy.toml:2: ")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("\n[agent]\nmodle = 'x'", "buddy.toml:3: unknown key 'modle' in [agent]. Did you mean 'model'?"),
        ("[modles.x]\n", "buddy.toml:1: unknown table 'modles'. Did you mean 'models'?"),
        (
            "[models.a]\nmodel = 'x'\n[models.b]\nmodel='y'\napi_bas_url = 'z'",
            "buddy.toml:5: unknown key 'api_bas_url' in [models.b]. Did you mean 'api_base_url'?",
        ),
        (
            "[models]\n'my model' = {api = 'completion'}",
            "buddy.toml:2: api in [models.my model] cannot be 'completion'",
        ),
        ("[agent]\nmax_turns = '9'", "buddy.toml:2: max_turns in [agent] must be a whole number, not text in quotes"),
        ("agent.max_turns = 0", "buddy.toml:1: max_turns in [agent] must be a whole number of at least 1"),
        (
            "[models.a]\napi_key = 'k'\napi_key_env = 'K'",
            "buddy.toml:1: [models.a]: a profile has only one key source, not api_key and api_key_env",
        ),
        ("agent = 3", "buddy.toml:1: agent must be a table"),
        ("[agent]\nzzzzzz = 1", "buddy.toml:2: unknown key 'zzzzzz' in [agent]"),
        ("[models]\nx = 3", "buddy.toml:2: [models.x]: expected `object`, got `int`"),
        (
            "[models.a]\nmodel = 'x'\nbase_url = '127.0.0.1:8000/v1'",
            "buddy.toml:3: base_url in [models.a] must start with http:// or https://, not '127.0.0.1:8000/v1'",
        ),
        (
            "[models.a]\napi_base_url = 'ftp://me:canary@host/v1'",
            "buddy.toml:2: api_base_url in [models.a] must start with http:// or https://",
        ),
    ],
)
def test_a_wrong_key_or_value_is_reported_with_its_place(text: str, message: str):
    assert str(refused(text)) == message


def test_an_unknown_key_is_reported_with_the_available_ones():
    assert "agent_runtime" in refused("[server]\nport = 1").hint


def test_no_error_repeats_a_key_and_no_repr_shows_one():
    config = parse_config("[models.a]\napi_key = 'sk-canary-0123456789'", "")
    assert "canary" not in repr(config)
    assert "canary" not in str(refused("[models.a]\napi_key = 'sk-canary-0123456789'\napi_key_env = 'K'"))


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("[models.a]\napi = 'chat'", "available: completions, responses, anthropic, gemini, scripted"),
        ("[models.a]\ncontext_limit = 'lots'", "context_limit takes a whole number"),
        ("[agent]\nmax_turns = '9'", "max_turns takes a whole number"),
        ("[agent]\ntemperature = 'hot'", "temperature takes a number"),
        ("[display]\ncolor = 'no'", "color takes true or false"),
        ("[agent]\nmodel = 3", "model takes text in quotes"),
        ("[models.a]\nbase_url = 'localhost:1'", 'write base_url = "http://localhost:1"'),
        ("[models.a]\napi_base_url = 'me:canary@host'", 'write api_base_url = "https://HOST/v1"'),
    ],
)
def test_a_wrong_value_is_reported_with_what_is_valid(text: str, hint: str):
    assert refused(text).hint == hint


def test_the_address_has_two_names():
    assert parse_config("[models.a]\nbase_url = 'http://h/v1'", "").models["a"].api_base_url == "http://h/v1"
    assert "alias" in str(refused("[models.a]\nbase_url = 'http://h'\napi_base_url = 'http://i'"))
