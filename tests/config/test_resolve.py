"""Which model is spoken to."""

from pathlib import Path

import pytest

from buddy.config.load import parse_config
from buddy.config.resolve import CODEX_BASE_URL, UNKNOWN_CONTEXT, profile_names, resolve_profile
from buddy.config.settings import Config
from buddy.errors import UserError

TWO = """\
[models.local]
api_base_url = "http://127.0.0.1:1/v1/"
model = "tiny"
api_key_env = "LOCAL_KEY"
context_limit = 4096
input_price = 0.5

[models.cloud]
api_base_url = "http://127.0.0.1:2/v1"
api = "responses"
api_key = "from-the-file"

[agent]
model = "cloud"
temperature = 0.2
"""

ENV = {"BUDDY_BASE_URL": "http://127.0.0.1:9/v1", "BUDDY_MODEL": "m", "BUDDY_API_KEY": "k"}


@pytest.fixture
def two() -> Config:
    return parse_config(TWO, "")


def test_the_active_profile_is_used(two: Config):
    resolved = resolve_profile(two, {})
    assert (resolved.profile, resolved.api, resolved.base_url) == ("cloud", "responses", "http://127.0.0.1:2/v1")
    assert (resolved.api_key, resolved.temperature) == ("from-the-file", 0.2)
    assert resolved.model == "cloud", "without a model the profile's name is one"
    assert (resolved.context_limit, resolved.context_known) == (UNKNOWN_CONTEXT, False)


def test_without_an_active_profile_the_first_is_used():
    config = parse_config("[models.b]\napi_base_url = 'http://127.0.0.1:1'\n[models.a]\n", "")
    assert resolve_profile(config, {}).profile == "b"


def test_a_profile_is_chosen_by_name(two: Config):
    resolved = resolve_profile(two, {"LOCAL_KEY": "local-key"}, name="local")
    assert (resolved.model, resolved.api_key, resolved.base_url) == ("tiny", "local-key", "http://127.0.0.1:1/v1")
    assert (resolved.context_limit, resolved.context_known, resolved.input_price) == (4096, True, 0.5)


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("local", ("local", "tiny")),
        ("local/other", ("local", "other")),
        ("other", ("cloud", "other")),
        ("vendor/other", ("cloud", "vendor/other")),
        ("scripted", ("scripted", "scripted")),
    ],
)
def test_m_names_a_profile_or_a_model_on_the_command_line_and_in_the_environment(
    two: Config, model: str, expected: tuple[str, str]
):
    by_flag = resolve_profile(two, {}, model=model)
    by_variable = resolve_profile(two, {"BUDDY_MODEL": model})
    assert (by_flag.profile, by_flag.model) == (by_variable.profile, by_variable.model) == expected


def test_a_model_inside_a_named_profile_is_only_a_model(two: Config):
    resolved = resolve_profile(two, {}, name="local", model="cloud")
    assert (resolved.profile, resolved.model) == ("local", "cloud")
    assert resolve_profile(two, {}, name="local", model="local/x").model == "x"


def test_the_command_line_then_the_environment_then_the_file_take_precedence(two: Config):
    resolved = resolve_profile(two, ENV)
    assert (resolved.profile, resolved.model, resolved.base_url, resolved.api_key) == (
        "cloud",
        "m",
        "http://127.0.0.1:9/v1",
        "k",
    )
    assert resolve_profile(two, ENV, model="n").model == "n"


def test_a_profile_chosen_by_name_keeps_its_own_server_key_and_model(two: Config):
    resolved = resolve_profile(two, ENV | {"LOCAL_KEY": "own"}, name="local")
    assert (resolved.model, resolved.base_url, resolved.api_key) == ("tiny", "http://127.0.0.1:1/v1", "own")
    assert resolve_profile(two, ENV, name="local").api_key == "k", "what it leaves open is filled in"


def test_the_old_variable_names_are_a_fallback():
    env = {"AGENT_BASE_URL": "http://127.0.0.1:1", "AGENT_MODEL": "old", "AGENT_API_KEY": "ok"}
    resolved = resolve_profile(Config(), env)
    assert (resolved.model, resolved.api_key) == ("old", "ok")
    assert resolve_profile(Config(), env | {"BUDDY_MODEL": "new"}).model == "new"


@pytest.mark.parametrize("name", [None, "env"])
def test_the_environment_alone_is_a_profile(name: str | None):
    resolved = resolve_profile(Config(), ENV, name=name)
    assert (resolved.profile, resolved.api, resolved.model) == ("env", "completions", "m")
    assert resolve_profile(Config(), {"BUDDY_BASE_URL": "http://127.0.0.1:1"}).model == ""


def test_the_scripted_profile_always_exists_and_ignores_the_environment(two: Config):
    assert profile_names(Config(), {})[0] == "scripted"  # `local` may follow, where its packages are
    assert profile_names(two, ENV) == ("local", "cloud", "scripted")
    resolved = resolve_profile(two, ENV, name="scripted")
    assert (resolved.api, resolved.base_url, resolved.api_key, resolved.script) == ("scripted", "", "", None)
    assert resolve_profile(Config(), {"BUDDY_MODEL": "scripted"}).api == "scripted"
    assert resolve_profile(parse_config("[agent]\nmodel = 'scripted'", ""), {}).api == "scripted"


def test_without_configuration_the_error_says_what_to_set():
    with pytest.raises(UserError, match="no model is configured") as caught:
        resolve_profile(Config(), {})
    for word in ("BUDDY_BASE_URL", "BUDDY_MODEL", "BUDDY_API_KEY", "buddy.toml"):
        assert word in caught.value.hint


def test_an_unknown_profile_is_reported_with_the_available_ones(two: Config):
    with pytest.raises(UserError, match=r"unknown profile 'clod'\. Available: local, cloud, scripted"):
        resolve_profile(two, {}, name="clod")
    with pytest.raises(UserError, match="unknown profile 'gone'"):
        resolve_profile(parse_config("[agent]\nmodel = 'gone'", ""), {})


def test_a_profile_without_a_server_is_an_error():
    with pytest.raises(UserError, match="profile 'a' has no api_base_url"):
        resolve_profile(parse_config("[models.a]", ""), {})


def test_an_unset_key_variable_is_an_empty_key(two: Config):
    assert resolve_profile(two, {}, name="local").api_key == ""


def test_a_key_file_loses_its_last_newline_and_may_be_next_to_the_configuration(tmp_path: Path):
    (tmp_path / "key").write_text("from-the-key-file\n")
    text = "[models.a]\napi_base_url = 'http://127.0.0.1:1'\napi_key_file = '{}'\nscript = 'x.jsonl'"
    beside = resolve_profile(parse_config(text.format("key"), str(tmp_path / "buddy.toml")), {})
    absolute = resolve_profile(parse_config(text.format(tmp_path / "key"), ""), {})
    assert beside.api_key == absolute.api_key == "from-the-key-file"
    assert beside.script == tmp_path / "x.jsonl"
    with pytest.raises(UserError, match="cannot read api_key_file"):
        resolve_profile(parse_config(text.format("gone"), str(tmp_path / "buddy.toml")), {})


def test_a_resolved_profile_does_not_show_its_key(two: Config):
    assert "from-the-file" not in repr(resolve_profile(two, {}))


LOGIN = """\
[models.gpt]
api = "responses"
auth = "login"
model = "gpt-5.3-codex"

[models.own]
auth = "login"
issuer = "https://id.example"
client_id = "buddy"
api_base_url = "https://models.example/v1"
"""


def test_an_openai_login_uses_the_codex_server():
    resolved = resolve_profile(parse_config(LOGIN, ""), {})
    assert (resolved.auth, resolved.base_url, resolved.api_key) == ("login", CODEX_BASE_URL, "")
    public = LOGIN.replace('model = "gpt', 'api_base_url = "https://api.openai.com/v1/"\nmodel = "gpt')
    assert resolve_profile(parse_config(public, ""), {}).base_url == CODEX_BASE_URL


def test_another_login_uses_the_server_it_names():
    resolved = resolve_profile(parse_config(LOGIN, ""), {}, name="own")
    assert (resolved.base_url, resolved.issuer, resolved.client_id) == (
        "https://models.example/v1",
        "https://id.example",
        "buddy",
    )


@pytest.mark.parametrize("env", [{"BUDDY_BASE_URL": "http://127.0.0.1:9/v1"}, ENV])
def test_a_server_from_the_environment_never_receives_a_login(env: dict[str, str]):
    resolved = resolve_profile(parse_config(LOGIN, ""), env)
    assert (resolved.auth, resolved.base_url) == ("api-key", "http://127.0.0.1:9/v1")
    chosen = resolve_profile(parse_config(LOGIN, ""), env, name="gpt")
    assert (chosen.auth, chosen.base_url, chosen.api_key) == ("login", CODEX_BASE_URL, "")


def test_a_key_from_the_environment_replaces_a_login():
    resolved = resolve_profile(parse_config(LOGIN, ""), {"BUDDY_API_KEY": "k"})
    assert (resolved.auth, resolved.base_url, resolved.api_key) == ("api-key", "https://api.openai.com/v1", "k")


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("auth = 'login'", 'api = "responses"'),
        ("auth = 'login'\nissuer = 'https://i'\nclient_id = 'c'", "api_base_url"),
    ],
)
def test_a_login_without_a_server_is_an_error(text: str, hint: str):
    with pytest.raises(UserError, match="names no server") as caught:
        resolve_profile(parse_config(f"[models.a]\n{text}", ""), {})
    assert hint in caught.value.hint


def test_an_issuer_needs_a_client_id():
    with pytest.raises(UserError, match="issuer requires client_id"):
        parse_config("[models.a]\nauth = 'login'\nissuer = 'https://i'", "buddy.toml")
