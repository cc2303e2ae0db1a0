"""`buddy login`, `buddy logout`, and runs that use them."""

import asyncio
import json
import re
import urllib.request
from pathlib import Path

import pytest

from buddy.cli.login import DEFAULT, DEFAULT_BLOCK, choose_profile
from buddy.config.load import parse_config
from buddy.config.resolve import CODEX_BASE_URL, resolve_profile
from buddy.config.template import add_profile
from tests.harness.fake_model import Answer, FakeModel, Request, says
from tests.harness.home import Home
from tests.harness.oauth_server import OAuthServer


def configure(home: Home, issuer: str, base_url: str = "http://127.0.0.1:9/v1") -> None:
    file = home.directory / ".config" / "buddy" / "buddy.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.parent.chmod(0o700)
    file.write_text(
        f'[models.work]\nauth = "login"\nissuer = "{issuer}"\nclient_id = "c"\napi_base_url = "{base_url}"\n'
        'model = "m"\ncontext_limit = 9000\n[models.keyed]\napi_base_url = "http://127.0.0.1:9"\n'
    )


def auth_of(home: Home) -> Path:
    return home.directory / ".config" / "buddy" / "auth.json"


class Quick(OAuthServer):
    """Answers the first question, and lets it be asked at once."""

    def answer(self, path: str, fields: dict[str, str]):
        status, body = super().answer(path, fields)
        return status, body | ({"interval": 0} if "interval" in body else {})


@pytest.mark.parametrize("standard", [True, False], ids=["standard", "openai"])
def test_a_device_login_shows_the_code_and_keeps_the_tokens(home: Home, standard: bool):
    with Quick(standard=standard) as server:
        configure(home, server.url)
        done = home.run("login", "work", "--device")
        assert done.code == 0
        assert "enter the code ABCD-EFGH" in done.err
        (tokens,) = json.loads(auth_of(home).read_text())["providers"].values()
        assert tokens["access_token"] == "access-token-1"
        assert auth_of(home).stat().st_mode & 0o777 == 0o600
        assert "access-token" not in done.err + done.out
        left = home.run("logout", "work")
        assert (left.code, left.err) == (0, f"logged out of {server.url}\n")
        assert json.loads(auth_of(home).read_text())["providers"] == {}
        assert home.run("logout").err == f"you were not logged in to {server.url}\n"


def test_a_browser_login_shows_the_address_and_waits(home: Home):
    with OAuthServer() as server:
        configure(home, server.url)
        with home.start("login", "--browser") as running:
            assert running.process.stderr is not None
            running.process.stderr.readline()
            address = running.process.stderr.readline().decode().strip()
            assert re.match(rf"{server.url}/oauth/authorize\?", address)
            with urllib.request.urlopen(address, timeout=30) as page:  # noqa: S310 - loopback
                assert b"You are logged in." in page.read()
            assert running.process.wait(30) == 0
    assert "access-token-1" in auth_of(home).read_text()


def test_a_denied_login_is_one_line_and_a_hint(home: Home):
    with Quick(polls=["access_denied"]) as server:
        configure(home, server.url)
        done = home.run("login", "--device")
    assert done.code == 1
    assert done.err.splitlines()[-2:] == [
        "error: the login was denied",
        "hint: if that was a mistake, run buddy login again",
    ]
    assert not auth_of(home).exists()


def test_a_login_server_that_is_not_there_is_worth_trying_again(home: Home):
    configure(home, "http://127.0.0.1:9")
    done = home.run("login", "--device")
    assert done.code == 75
    assert "can't connect to the login server" in done.err


def test_a_profile_with_a_key_is_not_logged_in_to(home: Home):
    configure(home, "http://127.0.0.1:9")
    done = home.run("login", "keyed")
    assert done.code == 64
    assert "profile 'keyed' uses an API key" in done.err
    assert "unknown profile 'gone'. Available: work" in home.run("login", "gone").err


def run_with_login(home: Home, refused: str) -> tuple[str, str, list[str]]:
    seen: list[str] = []

    def answer(request: Request) -> Answer:
        token = request.headers.get("authorization", "")
        if request.path.endswith("/models"):
            return Answer(status=404, body=b"{}")
        seen.append(token)
        if token == refused:
            return Answer(status=401, body=b'{"error": "refused"}')
        return Answer(says(f"your token is {token.removeprefix('Bearer ')}"))

    async def work() -> tuple[str, str]:
        with Quick() as server:
            async with FakeModel(answer) as model:
                configure(home, server.url, model.base_url)
                assert (await asyncio.to_thread(home.run, "login", "work", "--device")).code == 0
                done = await asyncio.to_thread(home.run, "exec", "hello")
        return done.out, done.err

    out, err = asyncio.run(work())
    return out, err, seen


def test_a_run_uses_the_login_renews_what_is_refused_and_hides_its_tokens(home: Home):
    out, _, seen = run_with_login(home, refused="Bearer access-token-1")
    assert seen == ["Bearer access-token-1", "Bearer access-token-2"]
    assert out == "your token is [REDACTED]\n"
    assert b"access-token-2" not in home.everything()


def test_without_a_login_a_run_says_what_to_do(home: Home):
    configure(home, "http://127.0.0.1:9")
    done = home.run("exec", "hello")
    assert done.code == 1
    assert "run `buddy login work`" in done.err


@pytest.mark.slow
def test_the_doctor_says_whether_you_are_logged_in(home: Home):
    with Quick() as server:
        configure(home, server.url)
        out = home.run("doctor")
        assert out.code == 1
        assert f"work/m: not logged in to {server.url}" in out.out
        assert "hint: buddy login work" in out.out
        home.run("login", "--device")
        assert f"work/m: logged in to {server.url}, for 60 more minutes" in home.run("doctor").out
        assert server.count("refresh_token") == 0
        auth_of(home).chmod(0o644)
        assert "is open to others (mode 0644)" in home.run("doctor").out


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "gpt-codex"),
        ("[models.a]\n[models.b]\nauth = 'login'\n[models.c]\nauth = 'login'", "b"),
        ("[models.b]\nauth = 'login'\n[models.c]\nauth = 'login'\n[agent]\nmodel = 'c'", "c"),
        ("[models.a]\n[agent]\nmodel = 'a'", "gpt-codex"),
    ],
)
def test_without_a_name_the_profile_is_the_one_that_logs_in(text: str, expected: str):
    name, profile = choose_profile(parse_config(text, ""), None)
    assert (name, profile.auth) == (expected, "login")


def test_the_profile_that_a_first_login_adds_is_one_that_works(tmp_path: Path):
    file = tmp_path / "buddy.toml"
    add_profile(file, DEFAULT, DEFAULT_BLOCK)
    resolved = resolve_profile(parse_config(file.read_text(), str(file)), {})
    assert (resolved.profile, resolved.auth, resolved.base_url) == ("gpt-codex", "login", CODEX_BASE_URL)
