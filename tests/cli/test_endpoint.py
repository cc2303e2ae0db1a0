"""The model that a shell names is the model that is used, whatever the running daemon was started with."""

import asyncio
import os
import signal
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from buddy.protocol.events import ModelSwitched
from tests.harness.clients import connected_client
from tests.harness.daemon import Daemon
from tests.harness.fake_model import Answer, FakeModel, Request, answer_to, says
from tests.harness.home import Home
from tests.harness.processes import BUDDY, Finished, RunningCommand
from tests.harness.wire_client import ErrorResponse, Message, SocketTransport, WireClient

KEY = "sk-canary-3f7a91c2d4e8b605"
OTHER_KEY = "sk-other-77c1e09b2a5d4f38"

Endpoints = dict[str, str]


@pytest.fixture
def stopped(home: Home) -> Iterator[Home]:
    yield home
    home.run("daemon", "stop")


def replies(text: str) -> Callable[[Request], Answer]:
    """A model that says this, knows its window, and lists one model."""

    def answer(request: Request) -> Answer:
        if request.path.endswith("/models"):
            return Answer(body=b'{"data": [{"id": "only", "context_length": 32000}]}')
        return answer_to(request, says(text))

    return answer


def settings(model: FakeModel, name: str = "m", key: str = "") -> Endpoints:
    return {
        "BUDDY_BASE_URL": model.base_url,
        "BUDDY_MODEL": name,
        "BUDDY_CONTEXT_LIMIT": "32000",
        **({"BUDDY_API_KEY": key} if key else {}),
    }


async def run(home: Home, *arguments: str, env: Endpoints | None = None) -> Finished:
    return await asyncio.to_thread(home.run, *arguments, env=env)


async def start_daemon(home: Home, env: Endpoints | None = None) -> None:
    done = await run(home, "daemon", "start", env=env)
    assert done.code == 0, done.err


def write_profile(home: Home, name: str, model: FakeModel, *more: str) -> Path:
    path = home.directory / ".config" / "buddy" / "buddy.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [
        f"[models.{name}]",
        f'api_base_url = "{model.base_url}"',
        f'model = "{name}-model"',
        "context_limit = 9000",
    ]
    path.write_text("\n".join([*lines, *more]) + "\n")
    return path


def chats(model: FakeModel) -> list[Request]:
    return [request for request in model.requests if not request.path.endswith("/models")]


@pytest.mark.slow
async def test_a_shells_environment_is_used_although_a_daemon_runs(stopped: Home) -> None:
    home = stopped
    async with FakeModel(replies("from the first")) as first, FakeModel(replies("from the second")) as second:
        await start_daemon(home, settings(first))
        assert (await run(home, "exec", "hi", env=settings(first))).out == "from the first\n"
        done = await run(home, "exec", "hi", env=settings(second, "n", KEY))
        assert done.out == "from the second\n"
        (asked,) = chats(second)
        assert (asked.body["model"], asked.headers["authorization"]) == ("n", f"Bearer {KEY}")
        # Where the two differ, both are named.
        assert f"using n at {second.base_url}" in done.err
        assert f"m at {first.base_url}" in done.err
    assert KEY.encode() not in home.everything()
    assert KEY not in done.err


@pytest.mark.slow
async def test_the_environment_is_used_when_a_session_is_continued(stopped: Home) -> None:
    home = stopped
    async with FakeModel(replies("one")) as first, FakeModel(replies("two")) as second:
        await start_daemon(home)
        await run(home, "exec", "hi", env=settings(first))
        done = await run(home, "exec", "-c", "more", "--stream-json", env=settings(second, "n", KEY))
        switched = [body for event in done.events if isinstance(body := event.body(), ModelSwitched)]
        assert [(body.before["baseUrl"], body.after["baseUrl"]) for body in switched] == [
            (first.base_url, second.base_url)
        ]
        assert chats(second)[0].headers["authorization"] == f"Bearer {KEY}"
        # A shell that names nothing changes nothing.
        assert (await run(home, "exec", "-c", "again")).out == "two\n"
        assert len(chats(second)) == 2
        # Nor does a key for no server in particular reach this one.
        await run(home, "exec", "-c", "again", env={"BUDDY_API_KEY": OTHER_KEY})
        assert chats(second)[2].headers["authorization"] == f"Bearer {KEY}"
    assert KEY.encode() not in home.everything()


async def test_edits_of_the_file_reach_a_running_daemon(stopped: Home) -> None:
    home = stopped
    async with FakeModel(replies("first")) as first, FakeModel(replies("second")) as second:
        write_profile(home, "a", first)
        await start_daemon(home)
        assert (await run(home, "exec", "hi")).out == "first\n"
        path = write_profile(home, "b", second, f'api_key = "{KEY}"')
        done = await run(home, "exec", "hi", "--profile", "b")
        assert done.out == "second\n"
        assert chats(second)[0].headers["authorization"] == f"Bearer {KEY}"
        path.write_text(path.read_text() + "\n[models.c\n")
        done = await run(home, "exec", f"say {KEY}")
        assert done.out == "second\n"
        assert f"{path}:7" in done.err
        assert "the previous configuration is used" in done.err
    assert (
        f"configuration {path}; profiles: a; model: a (a-model at {first.base_url})" in home.run("daemon", "logs").out
    )
    assert KEY.encode() not in home.everything()


async def test_an_edit_that_needs_a_restart_says_so_until_it_is_undone(stopped: Home) -> None:
    async with FakeModel(replies("fine")) as model:
        path = write_profile(stopped, "a", model)
        await start_daemon(stopped)
        text = path.read_text()
        path.write_text(text + "[memory]\nenabled = false\n[limits]\nconnections = 50\n")
        for _ in range(2):
            done = await run(stopped, "exec", "hi")
            assert (done.code, done.out) == (0, "fine\n")
            assert f"[memory] and [limits] in {path} have changed. To apply it, restart the daemon" in done.err
        path.write_text(text)
        assert "restart" not in (await run(stopped, "exec", "hi")).err


@pytest.mark.slow
async def test_a_file_that_appears_is_found_by_a_running_daemon(stopped: Home) -> None:
    async with FakeModel(replies("found")) as model:
        await start_daemon(stopped)
        assert (await run(stopped, "exec", "hi")).code == 64
        write_profile(stopped, "a", model)
        assert (await run(stopped, "exec", "hi")).out == "found\n"


@pytest.mark.slow
async def test_a_key_variable_of_the_shell_reaches_the_daemons_profile(stopped: Home) -> None:
    home = stopped
    async with FakeModel(replies("yes")) as model:
        write_profile(home, "a", model, 'api_key_env = "MY_SERVICE_KEY"')
        await start_daemon(home)
        done = await run(home, "exec", "hi")
        assert (done.code, "MY_SERVICE_KEY is not set" in done.err) == (64, True)
        assert (await run(home, "exec", "hi", env={"MY_SERVICE_KEY": KEY})).out == "yes\n"
        assert chats(model)[0].headers["authorization"] == f"Bearer {KEY}"
    assert KEY.encode() not in home.everything()


@pytest.mark.slow
async def test_the_daemons_environment_is_used_by_name_where_a_shell_has_no_model(stopped: Home) -> None:
    async with FakeModel(replies("daemon's")) as model:
        await start_daemon(stopped, settings(model))
        done = await run(stopped, "exec", "hi")
        assert done.out == "daemon's\n"
        assert f"using that of the daemon's environment: m at {model.base_url}" in done.err


@pytest.mark.slow
async def test_another_file_than_the_daemons_is_named_and_used(stopped: Home) -> None:
    home = stopped
    async with FakeModel(replies("first")) as first, FakeModel(replies("second")) as second:
        other = home.directory / "other.toml"
        other.write_text(write_profile(home, "b", second).read_text())
        own = write_profile(home, "a", first)
        await start_daemon(home)
        done = await run(home, "exec", "hi", env={"BUDDY_CONFIG": str(other)})
        assert done.out == "second\n"
        assert f"this shell's configuration is {other}, the daemon's is {own}" in done.err


@pytest.mark.slow
@pytest.mark.parametrize("with_daemon", [True, False])
async def test_a_server_without_a_named_model_is_asked_for_its_only_one(stopped: Home, with_daemon: bool) -> None:
    async with FakeModel(replies("only")) as model:
        if with_daemon:
            await start_daemon(stopped)
        done = await run(stopped, "exec", "hi", env={"BUDDY_BASE_URL": model.base_url})
        assert done.out == "only\n", done.err
        assert chats(model)[0].body["model"] == "only"


async def test_several_models_are_listed_for_a_choice(stopped: Home) -> None:
    async with FakeModel(lambda _: Answer(body=b'{"data": [{"id": "large"}, {"id": "small"}]}')) as model:
        done = await run(stopped, "exec", "hi", env={"BUDDY_BASE_URL": model.base_url})
        assert done.code == 64
        assert f"BUDDY_MODEL is not set, and {model.base_url} offers 2 models" in done.err
        assert "large, small" in done.err


def start_request(root: Path, endpoint: Message) -> Message:
    return {
        "mode": "headless",
        "provider": "default",
        "sandboxProvider": "local",
        "repo": {"rootPath": str(root)},
        "options": {"endpoint": endpoint},
    }


@asynccontextmanager
async def wire(home: Home) -> AsyncGenerator[WireClient, None]:
    client = WireClient(await SocketTransport.connect(home.state / "run" / "buddyd.sock"))
    try:
        await client.hello("test")
        yield client
    finally:
        await client.transport.close()


@pytest.mark.slow
async def test_a_recovered_run_waits_for_its_key(stopped: Home) -> None:
    """The key is only in memory: after a kill, the run takes it from the next client that has it."""
    home, hold = stopped, asyncio.Event()

    def answer(request: Request) -> Answer:
        if request.path.endswith("/models"):
            return Answer(status=404)
        has_restarted = hold.is_set()
        return answer_to(request, says("done")) if has_restarted else Answer(hang="headers")

    async with FakeModel(answer) as model:
        await start_daemon(home)
        endpoint = {"baseUrl": model.base_url, "model": "m", "apiKey": KEY, "contextLimit": 32000}
        async with wire(home) as client:
            started = await client.ask("start_session", start_request(home.work, endpoint))
            session_id = started["sessionId"]
            message = {"sessionId": session_id, "clientMessageId": "msg_1", "text": "go"}
            await client.ask("send_user_message", message, session_id)
            await model.wait_requests(1)
        os.kill(int((home.state / "daemon.lock").read_text()), signal.SIGKILL)
        hold.set()
        await start_daemon(home)
        async with wire(home) as client:
            place = {"sessionId": session_id, "lastSeenSeq": 0}
            await client.ask("attach_session", place, session_id)
            warning = await client.wait_for("warning", lambda found: found["code"] == "CREDENTIALS_NEEDED")
            assert "BUDDY_API_KEY" in warning["payload"]["message"]
            # The wrong server's key is not for this run.
            wrong = {"baseUrl": "http://127.0.0.1:9/v1", "apiKey": OTHER_KEY}
            await client.ask("attach_session", {**place, "options": {"endpoint": wrong}}, session_id)
            await client.ask("attach_session", {**place, "options": {"endpoint": {"apiKey": KEY}}}, session_id)
            complete = await client.wait_for("run_complete")
            assert complete["payload"]["outcome"] == "success"
        assert {request.headers["authorization"] for request in chats(model)} == {f"Bearer {KEY}"}
    for secret in (KEY, OTHER_KEY):
        assert secret.encode() not in home.everything()


@pytest.mark.slow
async def test_a_profiles_key_never_stands_in_for_a_clients_own(stopped: Home) -> None:
    """Neither for a run that was recovered, nor for the next message."""
    home, restarted = stopped, asyncio.Event()

    def answer(request: Request) -> Answer:
        return answer_to(request, says("done")) if restarted.is_set() else Answer(hang="headers")

    async with FakeModel(answer) as model, FakeModel(replies("no")) as other:
        write_profile(home, "own", other, f'api_key = "{OTHER_KEY}"')
        await start_daemon(home)
        endpoint = {"baseUrl": model.base_url, "model": "m", "apiKey": KEY, "contextLimit": 32000}
        async with wire(home) as client:
            started = await client.ask("start_session", start_request(home.work, endpoint))
            place = {"sessionId": started["sessionId"], "lastSeenSeq": 0}
            message = {"sessionId": started["sessionId"], "clientMessageId": "msg_1", "text": "go"}
            await client.ask("send_user_message", message, started["sessionId"])
            await model.wait_requests(1)
        os.kill(int((home.state / "daemon.lock").read_text()), signal.SIGKILL)
        restarted.set()
        await start_daemon(home)
        async with wire(home) as client:
            await client.ask("attach_session", place, started["sessionId"])
            await client.wait_for("warning", lambda found: found["code"] == "CREDENTIALS_NEEDED")
            key = {"options": {"endpoint": {"apiKey": KEY}}}
            await client.ask("attach_session", {**place, **key}, started["sessionId"])
            assert (await client.wait_for("run_complete"))["payload"]["outcome"] == "success"
        await run(home, "daemon", "stop")
        await start_daemon(home)
        async with wire(home) as client:
            with pytest.raises(ErrorResponse, match="BUDDY_API_KEY"):
                await client.ask("send_user_message", {**message, "clientMessageId": "msg_2"}, started["sessionId"])
        assert {request.headers["authorization"] for request in chats(model)} == {f"Bearer {KEY}"}
        assert chats(other) == []


@pytest.mark.slow
async def test_resume_sends_the_key_that_a_recovered_run_needs(stopped: Home) -> None:
    home, restarted = stopped, asyncio.Event()

    def answer(request: Request) -> Answer:
        return answer_to(request, says("done")) if restarted.is_set() else Answer(hang="headers")

    async with FakeModel(answer) as model:
        await start_daemon(home)
        env = {**home.env, **settings(model, key=KEY)}
        with RunningCommand([*BUDDY, "exec", "go"], cwd=home.work, env=env):
            await model.wait_requests(1)
        os.kill(int((home.state / "daemon.lock").read_text()), signal.SIGKILL)
        restarted.set()
        await start_daemon(home)
        done = await run(home, "resume", "--last", env=settings(model, key=KEY))
        assert (done.code, done.out) == (0, "done\n"), done.err


@pytest.mark.slow
async def test_exec_sends_its_key_again_to_a_daemon_that_came_back(stopped: Home) -> None:
    home, restarted = stopped, asyncio.Event()

    def answer(request: Request) -> Answer:
        return answer_to(request, says("done")) if restarted.is_set() else Answer(hang="headers")

    async with FakeModel(answer) as model:
        await start_daemon(home)
        running = asyncio.ensure_future(run(home, "exec", "go", env=settings(model, key=KEY)))
        await model.wait_requests(1)
        os.kill(int((home.state / "daemon.lock").read_text()), signal.SIGKILL)
        restarted.set()
        await start_daemon(home)
        done = await running
        assert (done.code, done.out) == (0, "done\n"), done.err


@pytest.mark.slow
async def test_a_message_without_the_key_is_refused_with_the_variable(stopped: Home) -> None:
    async with FakeModel(replies("fine")) as model:
        await start_daemon(stopped)
        assert (await run(stopped, "exec", "go", env=settings(model, key=KEY))).code == 0
        await run(stopped, "daemon", "stop")
        await start_daemon(stopped)
        done = await run(stopped, "exec", "-c", "more")
        assert (done.code, "BUDDY_API_KEY is not set" in done.err) == (64, True)
        assert (await run(stopped, "exec", "-c", "more", env=settings(model, key=KEY))).out == "fine\n"


async def test_an_endpoint_is_refused_over_a_websocket(tmp_path: Path) -> None:
    with Daemon(tmp_path, web=True) as daemon:
        async with connected_client(daemon, transport="websocket") as client:
            with pytest.raises(ErrorResponse, match="owner's Unix socket"):
                await client.ask("start_session", start_request(daemon.workspace, {"apiKey": KEY}))


@pytest.mark.slow
def test_status_and_start_name_the_websocket_and_its_token(stopped: Home) -> None:
    done = stopped.run("daemon", "start", "--listen", "127.0.0.1:0")
    token = stopped.state / "web-token"
    shown = stopped.run("daemon", "status")
    for text in (done.err, shown.out):
        assert "WebSocket ws://127.0.0.1:" in text
        assert f"token in {token}" in text
    assert "configuration none" in shown.out


@pytest.mark.slow
def test_everything_that_is_left_is_private(stopped: Home) -> None:
    """Whatever the umask: directories 0700, files 0600."""
    home = stopped.script({"text": "done"})
    (home.work / "buddy.toml").write_text("")
    commands = ("daemon start", "exec hi", "trust .", "project create shop", "daemon stop", "exec hi")
    home.sh("umask 022; " + "; ".join(f"buddy {command}" for command in commands))
    left = [path for path in home.state.rglob("*") if not path.is_symlink()]
    assert {oct(path.stat().st_mode & 0o777) for path in left if path.is_dir()} == {"0o700"}
    assert {oct(path.stat().st_mode & 0o777) for path in left if not path.is_dir()} == {"0o600"}
