"""The first start, with nothing configured."""

import stat
from pathlib import Path

import pytest

from buddy.cli.first_run import advice
from buddy.config.load import parse_config
from buddy.config.template import template
from buddy.models.discovery import VENDORS, discover
from tests.harness.fake_model import Answer, FakeModel
from tests.harness.home import Home

NO_KEYS = {vendor.variable: "" for vendor in VENDORS}


@pytest.fixture(autouse=True)
def without_keys(home: Home) -> None:
    home.env |= NO_KEYS


def config_of(home: Home) -> Path:
    return home.directory / ".config" / "buddy" / "buddy.toml"


def test_the_first_start_writes_the_template_once(home: Home):
    assert home.run("exec", "hello", "-m", "scripted").code == 0
    file = config_of(home)
    assert file.read_text() == template()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    file.write_text("# mine")
    assert home.run("exec", "hello", "-m", "scripted").code == 0
    assert file.read_text() == "# mine"


def test_a_template_that_cannot_be_written_is_only_a_warning(home: Home):
    (home.directory / ".config").write_text("in the way")
    done = home.run("exec", "hello", "-m", "scripted")
    assert (done.code, done.out) == (0, "hello\n")
    assert "warning: cannot write" in done.err


def test_nothing_configured_is_one_error_with_what_to_do(home: Home):
    first, again = home.run("exec", "hello"), home.run("exec", "hello")
    assert first == again
    assert (first.code, first.out) == (64, "")
    assert first.err.startswith("error: no model is configured\nhint: ")
    assert "Traceback" not in first.err
    assert "buddy.toml" in first.err


def test_a_key_that_is_set_is_found_and_not_shown(home: Home):
    done = home.run("exec", "hello", env={"OPENROUTER_API_KEY": "or-secret-key-1"})
    assert done.code == 64
    assert "[models.openrouter]" in done.err
    assert 'api_key_env = "OPENROUTER_API_KEY"' in done.err
    assert "BUDDY_API_KEY=$OPENROUTER_API_KEY buddy exec" in done.err
    assert "or-secret-key-1" not in done.err


def test_the_price_check_helps_as_well(home: Home):
    done = home.run("exec", "hello", "--max-cost", "1", env={"GROQ_API_KEY": "gsk-secret-1"})
    assert done.code == 64
    assert "[models.groq]" in done.err


def test_on_a_terminal_one_can_be_chosen_and_is_written(home: Home):
    # The proxy keeps the run that follows from leaving this machine.
    home.env |= {"MISTRAL_API_KEY": "mistral-secret", "HTTPS_PROXY": "http://127.0.0.1:9"}
    with home.terminal("exec", "hello", "--max-time", "1s") as terminal:
        terminal.wait_for("Use which one?")
        terminal.type("1\n")
        terminal.wait_for("wrote [models.")
    (profile,) = parse_config(config_of(home).read_text(), "").models.values()
    assert profile.model


async def test_servers_on_this_machine_are_found_and_silent_ones_not_waited_for():
    lists = Answer(body=b'{"data": [{"id": "bad name\\u001b"}, {"id": "qwen3:8b"}, {"id": "b"}]}')
    async with FakeModel(lambda _: lists) as one, FakeModel(lambda _: Answer(hang="headers")) as stuck:
        ports = {
            name: int(model.base_url.split(":")[2].split("/")[0]) for name, model in (("Ollama", one), ("vLLM", stuck))
        }
        found = await discover({}, ports | {"LM Studio": 9})
    assert [one.name for one in found] == ["ollama"]
    assert "qwen3:8b and 2 more" in found[0].what
    block = parse_config(f"[models.ollama]\n{found[0].block}", "").models["ollama"]
    assert (block.model, block.api_base_url) == ("qwen3:8b", f"http://127.0.0.1:{ports['Ollama']}/v1")


async def test_every_key_that_is_known_gives_a_profile_that_parses():
    found = await discover({vendor.variable: "a-key" for vendor in VENDORS}, {})
    assert [one.name for one in found] == [vendor.name for vendor in VENDORS]
    for one in found:
        profile = parse_config(f"[models.{one.name}]\n{one.block}", "").models[one.name]
        assert profile.api_key_env in one.environment
        assert "a-key" not in f"{one}"


def test_with_nothing_at_all_the_advice_names_every_way(tmp_path: Path):
    told = advice([], tmp_path / "buddy.toml")
    for word in ("BUDDY_BASE_URL", str(tmp_path / "buddy.toml"), "buddy login", "Ollama", "buddy demo"):
        assert word in told
