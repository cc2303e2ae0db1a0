"""A login's tokens as credentials: renewed in time, by one process, and never lost."""

import asyncio
import base64
import json
import os
import stat
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from subprocess import PIPE, Popen

import pytest

from buddy.errors import ProviderError, UserError
from buddy.models.completions import Completions
from buddy.models.contract import Prompt, Reply, UserItem
from buddy.models.login.bearer import EARLY_SECONDS, TRIAL_SECONDS, Login, account_of
from buddy.models.login.issuer import find_issuer
from buddy.models.login.tokens import AuthFile, LoginTokens
from tests.harness.fake_model import Answer, FakeModel, Request, says
from tests.harness.oauth_server import OAuthServer

NOW = 1_800_000_000.0


class Clock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def server() -> Iterator[OAuthServer]:
    with OAuthServer() as server:
        yield server


class Scene:
    """A login that was made an hour's lifetime ago, give or take."""

    def __init__(self, server: OAuthServer, folder: Path, *, left: float = 3600) -> None:
        self.server = server
        self.clock = Clock()
        self.issuer = find_issuer(server.url, "client")
        self.auth = AuthFile(folder / "auth.json")
        self.learned: list[str] = []
        granted = server.issue()
        with self.auth.lock():
            tokens = LoginTokens(granted["access_token"], granted["refresh_token"], int(NOW + left))
            self.auth.save(self.issuer.name, tokens)

    def login(self) -> Login:
        return Login("work", self.issuer, self.auth, learned=self.learned.append, clock=self.clock)

    def stored(self) -> LoginTokens | None:
        return self.auth.read(self.issuer.name)


async def test_a_token_with_time_left_is_used_as_it_is(server: OAuthServer, tmp_path: Path):
    scene = Scene(server, tmp_path, left=EARLY_SECONDS)
    assert await scene.login().headers() == {"authorization": "Bearer access-token-1"}
    assert server.count("refresh_token") == 0
    assert scene.learned == ["access-token-1", "refresh-token-1"]


async def test_a_token_about_to_expire_is_renewed_and_stored(server: OAuthServer, tmp_path: Path):
    scene = Scene(server, tmp_path, left=EARLY_SECONDS - 1)
    login = scene.login()
    assert await login.headers() == {"authorization": "Bearer access-token-2"}
    assert await login.headers() == {"authorization": "Bearer access-token-2"}
    assert server.count("refresh_token") == 1
    assert scene.stored() == LoginTokens("access-token-2", "refresh-token-2", int(NOW) + 3600)
    assert stat.S_IMODE(scene.auth.path.stat().st_mode) == 0o600
    assert "refresh-token-2" in scene.learned


async def test_many_logins_of_one_process_renew_once(server: OAuthServer, tmp_path: Path):
    scene = Scene(server, tmp_path, left=0)
    headers = await asyncio.gather(*(scene.login().headers() for _ in range(8)))
    assert {header["authorization"] for header in headers} == {"Bearer access-token-2"}
    assert server.count("refresh_token") == 1


RENEW = """
import asyncio, pathlib, sys
from buddy.models.login.bearer import Login
from buddy.models.login.issuer import find_issuer
from buddy.models.login.tokens import AuthFile
url, folder, now = sys.argv[1:]
auth = AuthFile(pathlib.Path(folder) / "auth.json")
login = Login("work", find_issuer(url, "client"), auth, clock=lambda: float(now))
print("ready", flush=True)
sys.stdin.readline()
print(asyncio.run(login.headers())["authorization"])
"""


def test_many_processes_renew_once(server: OAuthServer, tmp_path: Path):
    Scene(server, tmp_path, left=0)
    command = [sys.executable, "-c", RENEW, server.url, str(tmp_path), str(NOW)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    with ExitStack() as stack:
        processes = [
            stack.enter_context(Popen(command, stdin=PIPE, stdout=PIPE, text=True, env=environment)) for _ in range(3)
        ]
        assert [process.stdout.readline() for process in processes if process.stdout] == ["ready\n"] * 3
        for process in processes:
            assert process.stdin
            process.stdin.write("go\n")
            process.stdin.flush()
        got = [process.stdout.read() for process in processes if process.stdout]
    assert got == ["Bearer access-token-2\n"] * 3
    assert server.count("refresh_token") == 1


async def test_a_cancelled_run_does_not_lose_the_new_tokens(server: OAuthServer, tmp_path: Path):
    scene = Scene(server, tmp_path, left=0)
    server.hold = threading.Event()
    asking = asyncio.create_task(scene.login().headers())
    await asyncio.to_thread(server.refreshing.wait)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    server.hold.set()
    assert await scene.login().headers() == {"authorization": "Bearer access-token-2"}
    assert server.count("refresh_token") == 1


async def test_a_token_stays_in_use_while_the_issuer_is_down(server: OAuthServer, tmp_path: Path):
    scene = Scene(server, tmp_path, left=30)
    server.is_down = True
    assert await scene.login().headers() == {"authorization": "Bearer access-token-1"}
    scene.clock.now += 31
    with pytest.raises(ProviderError, match="503") as failed:
        await scene.login().headers()
    assert failed.value.retryable


async def test_a_revoked_login_names_the_command_to_run(server: OAuthServer, tmp_path: Path):
    scene = Scene(server, tmp_path, left=0)
    server.refresh_token = "another"
    with pytest.raises(ProviderError, match="`buddy login work`") as failed:
        await scene.login().headers()
    assert (failed.value.retryable, failed.value.hint) == (False, "buddy login work")


async def test_a_missing_login_names_the_command_to_run(server: OAuthServer, tmp_path: Path):
    login = Login("work", find_issuer(server.url, "client"), AuthFile(tmp_path / "auth.json"))
    with pytest.raises(ProviderError, match="you are not logged in; run `buddy login work`"):
        await login.headers()


async def test_without_a_refresh_token_the_login_ends_with_the_access_token(server: OAuthServer, tmp_path: Path):
    scene = Scene(server, tmp_path)
    with scene.auth.lock():
        scene.auth.save(scene.issuer.name, LoginTokens("a", "", int(NOW) - 1))
    with pytest.raises(ProviderError, match="the login has expired"):
        await scene.login().headers()


async def speak(model: FakeModel, login: Login) -> str:
    provider = Completions("work", model.base_url, login, "m", 8192)
    try:
        async for piece in provider.stream(Prompt("", [UserItem("hi")])):
            if isinstance(piece, Reply):
                return piece.text
    finally:
        await provider.close()
    raise AssertionError("no reply")


def only_for(*tokens: str):
    def answer(request: Request) -> Answer:
        allowed = request.headers.get("authorization") in {f"Bearer {token}" for token in tokens}
        return Answer(says("welcome")) if allowed else Answer(status=401, body=b'{"error": "expired: access-token-1"}')

    return answer


async def test_a_refused_token_is_renewed_once_and_the_call_repeated(server: OAuthServer, tmp_path: Path):
    scene = Scene(server, tmp_path)
    async with FakeModel(only_for("access-token-2")) as model:
        assert await speak(model, scene.login()) == "welcome"
        assert [request.headers["authorization"][-1] for request in model.requests] == ["1", "2"]
    assert server.count("refresh_token") == 1


async def test_a_token_that_another_process_renewed_is_tried_before_renewing(server: OAuthServer, tmp_path: Path):
    scene = Scene(server, tmp_path)
    login = scene.login()
    await login.headers()
    with scene.auth.lock():
        scene.auth.save(scene.issuer.name, LoginTokens("access-token-9", "refresh-token-9", int(NOW) + 3600))
    async with FakeModel(only_for("access-token-9")) as model:
        assert await speak(model, login) == "welcome"
    assert server.count("refresh_token") == 0


async def test_a_second_refusal_requires_a_login(server: OAuthServer, tmp_path: Path):
    scene = Scene(server, tmp_path)
    async with FakeModel(only_for()) as model:
        with pytest.raises(ProviderError, match="no longer valid; run `buddy login work`") as failed:
            await speak(model, scene.login())
        assert len(model.requests) == 2
    assert not failed.value.retryable
    assert server.count("refresh_token") == 1


async def test_a_token_that_worked_for_a_while_is_renewed_again_when_refused(server: OAuthServer, tmp_path: Path):
    scene = Scene(server, tmp_path)
    login = scene.login()
    await login.headers()
    assert await login.renew()
    scene.clock.now += TRIAL_SECONDS + 1
    assert await login.renew()
    assert server.count("refresh_token") == 2


async def test_a_key_that_is_refused_is_not_tried_again():
    async with FakeModel(only_for()) as model:
        provider = Completions("p", model.base_url, "wrong-key", "m", 8192)
        with pytest.raises(ProviderError, match="401") as failed:
            async for _ in provider.stream(Prompt("", [UserItem("hi")])):
                pass
        await provider.close()
        assert len(model.requests) == 1
    assert "API key" in failed.value.hint


def test_openai_gets_the_account_of_the_token():
    claims = {"https://api.openai.com/auth": {"chatgpt_account_id": "acc_1"}}
    payload = base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b"=").decode()
    assert account_of(f"head.{payload}.signature") == "acc_1"
    assert [account_of(token) for token in ("opaque", "a.b.c", "a.e30.c", "")] == [""] * 4


def test_a_file_that_is_not_ours_is_refused_without_showing_it(tmp_path: Path):
    auth = AuthFile(tmp_path / "auth.json")
    auth.path.write_text('{"version": 1, "providers": {"openai": "secret-token"}}')
    with pytest.raises(UserError, match="damaged or was not written by Buddy") as refused:
        auth.read("openai")
    assert "secret-token" not in str(refused.value)
    auth.path.write_text('{"version": 3, "providers": {}}')
    with pytest.raises(UserError, match="version 3"):
        auth.read("openai")


def test_the_file_has_the_format_that_other_programs_use(tmp_path: Path):
    auth = AuthFile(tmp_path / "auth.json")
    with auth.lock():
        auth.save("openai", LoginTokens("a", "r", 5))
    provider = {"access_token": "a", "refresh_token": "r", "expires_at_unix": 5}
    assert json.loads(auth.path.read_text()) == {"version": 1, "providers": {"openai": provider}}
    assert "'a'" not in repr(auth.read("openai"))


def test_waiting_for_a_held_lock_times_out(tmp_path: Path):
    auth = AuthFile(tmp_path / "auth.json")
    with auth.lock(), pytest.raises(TimeoutError), auth.lock(seconds=0.05):
        pass
    with auth.lock(seconds=0.05):
        pass
