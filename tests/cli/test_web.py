"""`buddy web`: links on stdout, in a browser or for guests, whatever the daemon was doing before."""

import asyncio
import json
import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.home import Home
from tests.harness.processes import wait_until
from tests.harness.web_client import WebClient, port_in, token_in


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    home = Home(tmp_path / "home").script({"text": "hello"})
    yield home
    home.run("daemon", "stop")


def log_in(web: WebClient, link: str) -> int:
    return asyncio.run(web.log_in(token_in(link))).status


def opened(home: Home, *flags: str, **env: str) -> str:
    """The link that the command prints."""
    done = home.run("web", *flags, env=env)
    assert done.code == 0, done.err
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/#token=att_[0-9A-Z]{26}\n", done.out)
    return done.out.strip()


def test_it_starts_the_daemon_and_prints_a_link_that_works_once(home: Home) -> None:
    link = opened(home)
    web = WebClient(port_in(link))
    assert log_in(web, link) == 200
    assert log_in(WebClient(web.port), link) == 401
    again = opened(home, "--no-open")
    assert port_in(again) == web.port
    assert log_in(WebClient(web.port), again) == 200


def test_it_joins_a_daemon_that_runs(home: Home) -> None:
    assert home.run("daemon", "start").code == 0
    before = json.loads(home.run("daemon", "status", "--json").out)["pid"]
    link = opened(home, "--listen", "127.0.0.1:0")
    assert json.loads(home.run("daemon", "status", "--json").out)["pid"] == before
    assert log_in(WebClient(port_in(link)), link) == 200


@pytest.mark.slow
def test_a_page_finds_the_daemon_again_after_a_restart(home: Home) -> None:
    link = opened(home, "--listen", "0")
    web = WebClient(port_in(link))
    assert log_in(web, link) == 200
    assert home.run("daemon", "stop").code == 0
    assert home.run("daemon", "start").code == 0

    def is_back() -> bool:
        try:
            return asyncio.run(web.get("/login")).status == 200
        except OSError:
            return False

    wait_until(is_back, "the console to be back")


@pytest.mark.slow
def test_a_port_that_is_taken_is_left_alone(home: Home) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused = home.run("web", "--listen", str(port))
        assert (refused.code, refused.out) == (64, "")
        assert "hint:" in refused.err
    assert port_in(opened(home, "--listen", str(port))) == port
    other = home.run("web", "--listen", "1")
    assert (other.code, other.out) == (64, "")
    assert "already open" in other.err


@pytest.mark.slow
def test_a_browser_is_started_without_the_link(home: Home) -> None:
    program, seen = home.directory / "browser", home.directory / "seen"
    program.write_text(
        f'#!/bin/sh\necho noise\nprintf "%s\\n" "$@" > {seen}.new\n'
        f'cat "${{1#file://}}" >> {seen}.new\nmv {seen}.new {seen}\n'
    )
    program.chmod(0o755)
    link = opened(home, BROWSER=str(program))
    wait_until(seen.exists, "the browser to start")
    address, page = seen.read_text().split("\n", 1)
    assert address.startswith("file:///")
    assert "att_" not in address
    assert link in page
    assert log_in(WebClient(port_in(link)), link) == 200


@pytest.mark.slow
def test_a_browser_that_is_missing_costs_nothing(home: Home) -> None:
    done = home.run("web", env={"BROWSER": "/nowhere/browser"})
    assert done.code == 0
    assert "did not start" in done.err


@pytest.mark.slow
def test_a_session_is_shared_and_the_link_revoked(home: Home) -> None:
    assert home.run("exec", "hi").code == 0
    link = opened(home, "--share", "observer", "--session", "last", "--expires", "1h")
    web = WebClient(port_in(link))
    answer = asyncio.run(web.log_in(token_in(link)))
    assert answer.json()["role"] == "observer"
    assert log_in(WebClient(web.port), link) == 401
    owner = opened(home)
    mine = WebClient(web.port)
    assert log_in(mine, owner) == 200
    revoked = home.run("web", "--revoke", "--session", "last")
    assert (revoked.code, revoked.out) == (0, "")
    assert asyncio.run(web.get("/login")).status == 401
    assert asyncio.run(mine.get("/login")).status == 200
    assert home.run("web", "--revoke").code == 0
    assert asyncio.run(mine.get("/login")).status == 401


@pytest.mark.slow
@pytest.mark.parametrize(
    ("flags", "why"),
    [
        (["--share", "observer"], "--share needs --session"),
        (["--share", "boss", "--session", "last"], "invalid choice"),
        (["--share", "observer", "--session", "last"], "no session"),
        (["--share", "observer", "--session", "last", "--expires", "soon"], "not a duration"),
        (["--expires", "1h"], "--expires needs --share"),
        (["--session", "last"], "--session needs"),
        (["--listen", "0.0.0.0:0"], "other machines"),
        (["--listen", "0.0.0.0:0", "--allow-remote"], "TLS"),
        (["--listen", "nonsense"], "not an address"),
    ],
)
def test_what_makes_no_sense_is_refused(home: Home, flags: list[str], why: str) -> None:
    refused = home.run("web", *flags)
    assert (refused.code, refused.out) == (64, "")
    assert why in refused.err
    assert "Traceback" not in refused.err
