"""The user's own file: written once, added to, never overwritten."""

import stat
from pathlib import Path

import pytest

from buddy.config.load import load_config, parse_config
from buddy.config.places import Places, find_places
from buddy.config.resolve import CODEX_BASE_URL, NothingConfigured, resolve_profile
from buddy.config.settings import Config
from buddy.config.template import add_profile, template, write_template
from buddy.errors import UserError


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return find_places({"HOME": str(tmp_path)})


def uncommented(text: str) -> str:
    """The template with all its examples enabled."""
    lines = (line.removeprefix("# ") for line in text.splitlines())
    return "\n".join(line for line in lines if line.startswith("[") or " = " in line.split('"')[0])


def test_the_template_names_no_model_and_changes_nothing():
    written = parse_config(template(), "")
    assert written == Config()
    with pytest.raises(NothingConfigured):
        resolve_profile(written, {})
    env = {"BUDDY_BASE_URL": "http://127.0.0.1:1/v1", "BUDDY_MODEL": "m"}
    resolved = resolve_profile(written, env)
    assert (resolved.profile, resolved.base_url, resolved.model) == ("env", "http://127.0.0.1:1/v1", "m")


def test_every_example_of_the_template_is_a_profile_that_works():
    config = parse_config(uncommented(template()), "template")
    assert list(config.models) == [
        "gpt-codex",
        "gpt-spark",
        "openrouter-deepseek",
        "openrouter-glm",
        "kimi",
        "claude",
        "gemini",
        "ollama",
        "my-server",
    ]
    active = resolve_profile(config, {})
    assert (active.profile, active.api, active.auth) == ("gpt-codex", "responses", "login")
    assert (active.model, active.base_url) == ("gpt-5.3-codex", CODEX_BASE_URL)
    models = {name: profile.model for name, profile in config.models.items()}
    assert models["gpt-spark"] == "gpt-5.3-codex-spark"
    assert (models["openrouter-deepseek"], models["openrouter-glm"]) == ("deepseek/deepseek-v3.2", "z-ai/glm-5")
    for name in set(config.models) - {"my-server"}:
        assert resolve_profile(config, {}, name).base_url.startswith("http")


def test_the_template_is_written_once_and_privately(places: Places):
    written = write_template({}, places)
    assert written is not None
    assert written == places.config_dir / "buddy.toml"
    assert written.read_text() == template()
    assert stat.S_IMODE(written.stat().st_mode) == 0o600
    assert stat.S_IMODE(written.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(written.parent.parent.stat().st_mode) == 0o700
    assert [path.name for path in written.parent.iterdir()] == ["buddy.toml"]
    written.write_text("# mine\n")
    assert write_template({}, places) is None
    assert written.read_text() == "# mine\n"


@pytest.mark.parametrize("name", ["buddy/agent.toml", "agent/agent.toml"])
def test_an_old_file_is_a_configuration_too(places: Places, name: str):
    older = places.config_dir.parent / name
    older.parent.mkdir(parents=True)
    older.write_text("")
    assert write_template({}, places) is None


def test_a_dangling_link_is_left_alone(places: Places):
    places.config_dir.mkdir(parents=True)
    (places.config_dir / "buddy.toml").symlink_to(places.config_dir / "gone.toml")
    assert write_template({}, places) is None
    assert not (places.config_dir / "gone.toml").exists()


def test_a_folder_that_cannot_be_created_is_an_os_error(tmp_path: Path):
    (tmp_path / ".config").write_text("a file")
    with pytest.raises(OSError, match=r"\.config"):
        write_template({}, find_places({"HOME": str(tmp_path)}))


def test_a_profile_is_added_at_the_end(places: Places):
    write_template({}, places)
    file = places.config_dir / "buddy.toml"
    add_profile(file, "ollama", 'api_base_url = "http://127.0.0.1:11434/v1"\nmodel = "qwen3:8b"\n')
    assert file.read_text().startswith(template().rstrip())
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    resolved = resolve_profile(load_config({}, None, places), {})
    assert (resolved.profile, resolved.model) == ("ollama", "qwen3:8b")
    with pytest.raises(UserError, match="already has a profile 'ollama'"):
        add_profile(file, "ollama", "")


def test_a_profile_that_would_break_the_file_is_not_added(places: Places):
    write_template({}, places)
    file = places.config_dir / "buddy.toml"
    with pytest.raises(UserError, match="unknown key 'modle'"):
        add_profile(file, "x", 'modle = "y"\n')
    assert file.read_text() == template()


def test_a_linked_file_stays_a_link(places: Places, tmp_path: Path):
    kept = tmp_path / "dotfiles.toml"
    kept.write_text("# kept elsewhere\n")
    places.config_dir.mkdir(parents=True)
    file = places.config_dir / "buddy.toml"
    file.symlink_to(kept)
    add_profile(file, "x", 'api_base_url = "http://127.0.0.1:1"\n')
    assert file.is_symlink()
    assert "[models.x]" in kept.read_text()
