"""Registered secrets: nowhere in the log, and still usable while the process lives."""

import asyncio
import base64
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from buddy.config.settings import AgentSettings, Profile
from buddy.errors import ProviderError
from buddy.log.contract import Log
from buddy.log.memory import MemoryLog
from buddy.models.contract import AssistantItem, Reply, TextDelta, TokenUsage
from buddy.protocol.events import (
    ApprovalRequired,
    AssistantMessage,
    AssistantToken,
    RunComplete,
    ToolOutput,
    ToolResult,
)
from buddy.protocol.queue_requests import QueueMessage, QueueMessageReply, SteerRun
from buddy.protocol.requests import AcceptedReply, ListSessions, ListSessionsReply, StartSession, SubmitApproval
from buddy.protocol.shapes import Criterion, Repo, RunOptions
from tests.harness.logs import read_all
from tests.harness.models import StepModel, answer, asks_for, call, shell
from tests.harness.runtime import RuntimeHost, checked_host, crash

KEY = "sk-live-4f9Qz81LmTx7Bv2R"
PASSWORD = "correct-horse-9-battery"
ENV = {"DEPLOY_TOKEN": PASSWORD}
PROFILES = {"keyed": Profile(api_base_url="http://127.0.0.1:9/v1", api_key=KEY, model="any")}
AGENT = AgentSettings(model="keyed")


async def assert_unseen(host: RuntimeHost, session_id: str) -> None:
    """No secret is in any event, nor in any blob that an event names."""
    log = host.runtime.log
    events = await read_all(log, session_id)
    for event in events:
        line = event.line().decode()
        assert KEY not in line, event.type
        assert PASSWORD not in line, event.type
        body = event.body()
        blobs = [*(body.blobs or {}).values()] if body else []
        if isinstance(body, ToolResult) and body.output:
            blobs.append(body.output)
        for blob in blobs:
            found = await log.read_blob(blob)
            assert found is not None
            assert KEY.encode() not in found[0]
            assert PASSWORD.encode() not in found[0]


@pytest.mark.parametrize("secret", [KEY, PASSWORD])
async def test_a_secret_that_a_person_or_the_model_says_is_not_recorded(tmp_path: Path, secret: str) -> None:
    pieces = [TextDelta(f"it is {secret[:7]}"), TextDelta(secret[7:12]), TextDelta(f"{secret[12:]}, keep it")]
    whole = Reply(f"it is {secret}, keep it", usage=TokenUsage(1, 1))
    model = StepModel([*pieces, whole])
    async with (
        checked_host(tmp_path, model, env=ENV, profiles=PROFILES, agent=AGENT) as host,
        host.client() as client,
    ):
        session_id = await client.start()
        await client.send(f"my key is {secret}")
        done = await client.wait_for(RunComplete)
        assert done.summary == "it is [REDACTED], keep it"
        assert "".join(token.text for token in client.bodies(AssistantToken)) == done.summary
        assert model.user_messages() == ["my key is [REDACTED]"]
        await assert_unseen(host, session_id)


async def test_a_text_that_ends_with_the_start_of_a_secret_stays_in_its_own_run(tmp_path: Path) -> None:
    first = StepModel([TextDelta("sk-live"), ProviderError("cut", retryable=False)], answer("clean"))
    async with checked_host(tmp_path, first, profiles=PROFILES, agent=AGENT) as host, host.client() as client:
        await client.start()
        run_id = await client.send("one")
        await client.wait_for(RunComplete)
        tokens = [event for event in client.received if event.type == "assistant_token"]
        assert [(event.run_id, event.body()) for event in tokens] == [(run_id, AssistantToken(text="sk-live"))]
        await client.send("two")
        assert (await client.wait_for(RunComplete)).summary == "clean"
        assert client.bodies(AssistantToken)[-1].text == "clean"


async def test_a_call_runs_with_the_secret_that_its_record_does_not_show(tmp_path: Path) -> None:
    command = shell(f"test {KEY} = sk-live-4f9Qz81LmTx7B''v2R && echo same > result; echo {KEY}")
    model = StepModel(asks_for(command), answer())
    async with checked_host(tmp_path, model, profiles=PROFILES, agent=AGENT) as host, host.client() as client:
        session_id = await client.start()
        run_id = await client.send("go")
        asked = await client.wait_for(ApprovalRequired)
        assert KEY not in str(asked.details)
        await client.api.approve(SubmitApproval(session_id, run_id, asked.approval_id, "approve"))
        await client.wait_for(RunComplete)
        assert (tmp_path / "result").read_text() == "same\n"
        assert "".join(output.text for output in client.bodies(ToolOutput)) == "[REDACTED]\n"
        assert model.tool_results() == ["exit code: 0\nstdout:\n[REDACTED]"]
        await assert_unseen(host, session_id)


async def test_a_long_output_is_scrubbed_before_it_is_cut_and_kept(tmp_path: Path) -> None:
    # The cut after the head of what the model receives falls into the secret.
    lead = 8192 - len("exit code: 3\nstdout:\n") - len(KEY) // 2
    script = f"printf 'x%.0s' $(seq {lead}); printf {KEY}; seq 20000; printf {KEY}; exit 3"
    model = StepModel(asks_for(shell(script)), answer())
    async with checked_host(tmp_path, model, profiles=PROFILES, agent=AGENT) as host, host.client() as client:
        session_id = await client.start(approval_policy="all")
        await client.send("go")
        await client.wait_for(RunComplete)
        assert "sk-live" not in model.tool_results()[0]
        result = client.bodies(ToolResult)[0]
        assert result.output is not None
        found = await host.runtime.log.read_blob(result.output)
        assert found is not None
        assert found[0].decode().count("[REDACTED]") == 2
        await assert_unseen(host, session_id)


async def test_a_secret_in_an_error_or_a_check_is_not_recorded(tmp_path: Path) -> None:
    failure = ProviderError(f"{'x' * 1990} the key {KEY} is not valid", retryable=False)
    model = StepModel(answer(), [failure])
    async with checked_host(tmp_path, model, profiles=PROFILES, agent=AGENT) as host, host.client() as client:
        session_id = await client.start()
        check = Criterion("leaks", f"printf 'x%.0s' $(seq 2040); printf {KEY}; seq 3000; false")
        await client.send("go", accept=[check])
        done = await client.wait_for(RunComplete)
        assert done.reason == "provider_error"
        assert "sk-l" not in done.summary
        assert not any(b"sk-live" in event.line() for event in client.received)
        await assert_unseen(host, session_id)


async def test_a_secret_in_what_waits_is_not_kept(tmp_path: Path) -> None:
    gate = asyncio.Event()
    model = StepModel([gate, *answer()], answer(), answer())
    log = MemoryLog(lambda: 0)
    async with (
        checked_host(tmp_path, model, log=log, profiles=PROFILES, agent=AGENT) as host,
        host.client() as client,
    ):
        session_id = await client.start()
        run_id = await client.send("go")
        await model.waiting.wait()
        await client.api.request(SteerRun(run_id, f'say "{KEY}"\n'), AcceptedReply, session_id)
        await client.api.request(QueueMessage("msg_2", f"or {KEY}"), QueueMessageReply, session_id)
        assert not any(KEY.encode() in item.body for item in await log.waiting(session_id))
        gate.set()
        await client.wait_for(RunComplete)
        await client.wait_for(RunComplete)
        assert model.user_messages() == ["go", 'say "[REDACTED]"\n', "or [REDACTED]"]
        await assert_unseen(host, session_id)


async def test_after_a_crash_a_call_whose_arguments_held_a_secret_is_not_run(
    tmp_path: Path, logs: Callable[[], Log]
) -> None:
    model = StepModel(asks_for(shell(f"echo {KEY} > made")))
    async with (
        checked_host(tmp_path, model, log=logs(), profiles=PROFILES, agent=AGENT) as host,
        host.client() as client,
    ):
        session_id = await client.start()
        await client.send("go")
        await client.wait_for(ApprovalRequired)
        await crash(host, session_id)
        told = StepModel(answer())
        async with (
            checked_host(tmp_path, told, log=logs(), profiles=PROFILES, agent=AGENT) as after,
            after.client() as again,
        ):
            await again.api.attach(session_id)
            assert (await again.wait_for(RunComplete)).outcome == "success"
            assert "not run: the arguments contained a secret" in told.tool_results()[0]
            kinds = again.types()
            assert kinds[kinds.index("approval_expired") + 1] == "tool_result"
            assert not (tmp_path / "made").exists()


async def test_a_call_that_mentions_redaction_runs_like_any_other(tmp_path: Path) -> None:
    model = StepModel(asks_for(shell("echo '[REDACTED] is what they write'")), answer())
    async with checked_host(tmp_path, model) as host, host.client() as client:
        await client.start(approval_policy="all")
        await client.send("go")
        await client.wait_for(RunComplete)
        assert model.tool_results() == ["exit code: 0\nstdout:\n[REDACTED] is what they write"]


async def test_opaque_items_are_kept_byte_for_byte(tmp_path: Path, logs: Callable[[], Log]) -> None:
    noise = base64.b64encode(bytes(range(256))).decode()
    opaque = {
        "reasoning": "the user wrote password=Tr0ub4dor&3 so",
        "reasoning_details": [{"type": "encrypted", "data": noise, "signature": "api_key: abc12345defg"}],
    }
    first = StepModel([Reply("yes", usage=TokenUsage(1, 1), opaque=opaque)])
    async with (
        checked_host(tmp_path, first, log=logs(), profiles=PROFILES, agent=AGENT) as host,
        host.client() as client,
    ):
        session_id = await client.start()
        await client.send("go")
        await client.wait_for(RunComplete)
        assert client.bodies(AssistantMessage)[0].opaque == opaque
        await crash(host, session_id)
        later = StepModel(answer())
        async with (
            checked_host(tmp_path, later, log=logs(), profiles=PROFILES, agent=AGENT) as after,
            after.client() as again,
        ):
            again.session_id = session_id
            await again.send("and?")
            await again.wait_for(RunComplete)
            assert later.received[0][1] == AssistantItem("yes", (), opaque)


async def test_an_address_is_kept_without_its_password_and_a_folder_as_it_is(
    tmp_path: Path, logs: Callable[[], Log]
) -> None:
    folder = tmp_path / PASSWORD
    folder.mkdir()
    repo = Repo(str(folder), remote_url=f"https://me:{PASSWORD}@example.org/x.git")
    async with checked_host(tmp_path, StepModel(), log=logs(), env=ENV) as host, host.client() as client:
        started = await client.api.start_session(StartSession("interactive", "default", "local", repo))
        listed = await client.api.request(ListSessions(), ListSessionsReply)
        assert listed.sessions[0].repo == Repo(str(folder), remote_url="https://me:[REDACTED]@example.org/x.git")
        await crash(host, started.session_id)
        working = StepModel(asks_for(shell("touch made")), answer())
        async with checked_host(tmp_path, working, log=logs(), env=ENV) as after, after.client() as again:
            again.session_id = started.session_id
            await again.send("go", options=RunOptions(approval_policy="all"))
            await again.wait_for(RunComplete)
            assert (folder / "made").exists()


async def test_an_opaque_item_with_a_registered_secret_is_dropped_and_the_others_stay(tmp_path: Path) -> None:
    opaque = {"reasoning": f"the key is {KEY}", "encrypted": "gAAAAA"}
    model = StepModel([Reply(f"use {KEY}", usage=TokenUsage(1, 1), opaque=opaque)], answer())
    async with checked_host(tmp_path, model, profiles=PROFILES, agent=AGENT) as host, host.client() as client:
        session_id = await client.start()
        await client.send("go")
        await client.wait_for(RunComplete)
        message = client.bodies(AssistantMessage)[0]
        assert (message.text, message.opaque) == ("use [REDACTED]", {"encrypted": "gAAAAA"})
        await client.send("and?")
        await client.wait_for(RunComplete)
        assert model.received[1][1] == AssistantItem("use [REDACTED]", (), {"encrypted": "gAAAAA"})
        await assert_unseen(host, session_id)


async def test_a_token_that_was_minted_is_a_secret_too(tmp_path: Path) -> None:
    model = StepModel(asks_for(call("read_file", {"path": "a.txt"})), answer())
    async with checked_host(tmp_path, model) as host, host.client() as client:
        await client.start()
        (tmp_path / "a.txt").write_text(client.token)
        await client.send("go")
        await client.wait_for(RunComplete)
        assert model.tool_results() == ["[REDACTED]"]


async def test_a_token_cannot_be_guessed_from_the_ids_of_its_session(tmp_path: Path) -> None:
    async with checked_host(tmp_path, StepModel()) as host, host.client() as client:
        tokens: list[str] = []
        for _ in range(5):
            await client.start()
            tokens.append(client.token)
        assert all(re.fullmatch(r"att_[0-7][0-9A-HJKMNP-TV-Z]{25}", token) for token in tokens)
        assert len({token[:12] for token in tokens}) == 5
        assert len({token[-12:] for token in tokens}) == 5
