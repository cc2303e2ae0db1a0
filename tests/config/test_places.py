"""The directories of configuration and state."""

import os
import pwd
from pathlib import Path

import pytest

from buddy.config.places import find_places


def test_the_xdg_variables_set_the_directories():
    env = {"XDG_CONFIG_HOME": "/c", "XDG_STATE_HOME": "/s", "XDG_RUNTIME_DIR": "/r", "HOME": "/h"}
    places = find_places(env)
    assert places.config_dir == Path("/c/buddy")
    assert places.state_dir == Path("/s/buddy")
    assert places.socket == Path("/r/buddy/buddyd.sock")


def test_by_default_the_home_directory_is_used_and_the_socket_is_in_the_state():
    places = find_places({"HOME": "/h", "XDG_CONFIG_HOME": "", "XDG_STATE_HOME": "not/absolute"})
    assert places.config_dir == Path("/h/.config/buddy")
    assert places.state_dir == Path("/h/.local/state/buddy")
    assert places.socket == Path("/h/.local/state/buddy/run/buddyd.sock")


def test_the_command_line_takes_precedence_over_the_environment():
    env = {"HOME": "/h", "BUDDY_STATE_DIR": "/env", "BUDDY_SOCKET": "/env.sock"}
    assert find_places(env).state_dir == Path("/env")
    assert find_places(env).socket == Path("/env.sock")
    places = find_places(env, state_dir="/arg", socket=Path("/arg.sock"))
    assert (places.state_dir, places.socket) == (Path("/arg"), Path("/arg.sock"))


def test_another_state_directory_has_another_socket():
    env = {"HOME": "/h", "XDG_RUNTIME_DIR": "/r"}
    assert find_places(env, state_dir="/a").socket != find_places(env, state_dir="/b").socket


def test_every_place_is_absolute():
    places = find_places({"HOME": "/h", "BUDDY_STATE_DIR": "here", "BUDDY_SOCKET": "s.sock"})
    assert places.state_dir.is_absolute()
    assert places.socket.is_absolute()


@pytest.mark.parametrize("home", [{}, {"HOME": ""}, {"HOME": "relative"}])
def test_a_relative_home_is_replaced_by_the_users_home(home: dict[str, str]) -> None:
    own = Path(pwd.getpwuid(os.getuid()).pw_dir)
    assert find_places(home).config_dir == own / ".config" / "buddy"
    assert find_places(home).state_dir == own / ".local" / "state" / "buddy"
