"""What the model is sent as a session grows: warnings, compactions, refusals; pinned content is never lost."""

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from buddy.daemon.runtime import RuntimeOverrides, unix_ms
from buddy.log.memory import MemoryLog
from buddy.models.contract import Provider
from buddy.protocol.events import Progress, RunComplete, SessionCompacted, Usage, WarningRaised
from buddy.protocol.requests import CompactSession, CompactSessionReply, GetSnapshot, GetSnapshotReply
from buddy.protocol.shapes import BudgetLimits, Criterion, RunOptions, ToolCallItem
from buddy.targets import files
from tests.backends.wires import invalid_on_any_wire
from tests.backends.workers import UnlistedWorker, Worker, texts
from tests.harness.models import call, shell
from tests.harness.runtime import RuntimeClient, RuntimeHost, check_host, scripted_host

RULE = "Count the notes. You must never touch keys.txt, and always answer in French."
PLENTY = RunOptions(budget=BudgetLimits(max_turns=1000))


@asynccontextmanager
async def working(
    tmp_path: Path, model: Provider, name: str = "cli"
) -> AsyncGenerator[tuple[RuntimeHost, RuntimeClient]]:
    parts = RuntimeOverrides(clock=unix_ms, log=MemoryLog(unix_ms), provider=lambda _: model)
    async with scripted_host(tmp_path, overrides=parts) as host, host.client(name) as client:
        await client.start(approval_policy="all")
        yield host, client
        await check_host(host)


def notes(tmp_path: Path, many: int) -> None:
    for number in range(many):
        (tmp_path / f"note{number}.txt").write_text(f"note {number}: " + f"word{number} " * 300)


def reading(number: int) -> ToolCallItem:
    return call("read_file", {"path": f"note{number}.txt"})


async def test_three_hundred_turns_and_their_compactions_lose_nothing_pinned(tmp_path: Path) -> None:
    notes(tmp_path, 50)

    def act(turn: int) -> tuple[ToolCallItem, ...]:
        if turn > 300:
            return ()
        return (shell(f"echo {turn} >> made.txt; : {turn}"),) if turn % 10 == 0 else (reading(turn % 50),)

    model = Worker(act)
    async with working(tmp_path, model) as (_, client):
        await client.send(RULE, accept=[Criterion("made", "test -s made.txt")], options=PLENTY)
        assert (await client.wait_for(RunComplete)).outcome == "success"
        compactions = client.bodies(SessionCompacted)
        assert len(compactions) >= 5
        assert {(one.by, one.strategy) for one in compactions} == {("auto", "model")}
        assert all(one.after_tokens < one.before_tokens for one in compactions)
        assert len(model.prompts) == 301
        for prompt in model.prompts:
            assert any(RULE in text for text in texts(tuple(prompt.items)))
            assert invalid_on_any_wire(prompt.items) is None
        summary = compactions[-1].summary
        assert "made: `test -s made.txt` exits 0" in summary
        assert '; : 200"} → done' in summary
        assert (tmp_path / "made.txt").read_text().split() == [str(turn) for turn in range(10, 301, 10)]
        assert max(usage.context.used for usage in client.bodies(Usage)) <= model.context_limit


async def test_a_filling_context_is_warned_about_then_compacted_and_reported(tmp_path: Path) -> None:
    notes(tmp_path, 40)
    model = Worker(lambda turn: (reading(turn),) if turn < 36 else ())
    async with working(tmp_path, model) as (_, client):
        await client.send(RULE)
        await client.wait_for(RunComplete)
        warnings = [body.code for body in client.bodies(WarningRaised)]
        assert warnings[0] == "CONTEXT_80"
        kinds = [event.type for event in client.received if event.type != "status"]
        at = kinds.index("session_compacted")
        assert kinds[at - 4 : at + 3] == [
            "tool_result",
            "progress",
            "model_request",
            "usage",
            "session_compacted",
            "progress",
            "model_request",
        ]
        summaries = [body for body in client.bodies(Progress) if body.kind == "rolling_summary"]
        assert len(summaries) == len(client.bodies(SessionCompacted)) == len(model.summaries)
        assert summaries[0].message == f"[{summaries[0].turn}/50] Summarising the history"
        compaction = client.bodies(SessionCompacted)[0]
        assert compaction.before_tokens / model.context_limit >= 0.85 - 1024 / model.context_limit
        assert compaction.after_tokens / model.context_limit <= 0.55
        assert compaction.summary.endswith("it went on")


async def test_a_context_that_cannot_be_shortened_ends_the_run(tmp_path: Path) -> None:
    model = Worker(lambda _: (), limit=1500)
    async with working(tmp_path, model) as (_, client):
        await client.send(RULE)
        done = await client.wait_for(RunComplete)
        assert (done.outcome, done.reason) == ("failed", "context_full")
        assert done.headless is not None
        assert done.headless.exit_code_hint == 1
        assert model.prompts == []


async def test_nothing_is_given_up_for_a_window_that_is_only_assumed(tmp_path: Path) -> None:
    notes(tmp_path, 30)
    model = UnlistedWorker(lambda turn: (reading(turn),) if turn < 20 else (), server=None)
    async with working(tmp_path, model) as (_, client):
        await client.send(RULE)
        assert (await client.wait_for(RunComplete)).outcome == "success"
        usages = client.bodies(Usage)
        assert usages[-1].context.used > usages[-1].context.limit
        assert all(usage.context.assumed for usage in usages)
        assert not client.bodies(SessionCompacted)


async def test_a_resumed_session_keeps_the_window_it_knew(tmp_path: Path) -> None:
    notes(tmp_path, 30)
    log = MemoryLog(unix_ms)
    model = UnlistedWorker(lambda turn: (reading(turn),) if turn < 20 else (), server=128_000)
    async with (
        scripted_host(tmp_path, overrides=RuntimeOverrides(clock=unix_ms, log=log, provider=lambda _: model)) as host,
        host.client() as client,
    ):
        session_id = await client.start(approval_policy="all")
        await client.send(RULE)
        assert (await client.wait_for(RunComplete)).outcome == "success"
        assert client.bodies(Usage)[-1].context.limit == 128_000
    silent = UnlistedWorker(lambda _: (), server=None)
    async with (
        scripted_host(tmp_path, overrides=RuntimeOverrides(clock=unix_ms, log=log, provider=lambda _: silent)) as host,
        host.client() as client,
    ):
        client.session_id = session_id
        await client.api.attach(session_id)
        await client.send("and now?")
        await client.wait_for(RunComplete)
        assert client.bodies(Usage)[-1].context.limit == 128_000
        assert not client.bodies(SessionCompacted)
        await check_host(host)


@pytest.mark.parametrize("summary", [None, "", "far too long " * 3000])
async def test_a_bad_summary_of_the_model_is_not_used(tmp_path: Path, summary: str | None) -> None:
    notes(tmp_path, 40)
    model = Worker(lambda turn: (reading(turn),) if turn < 36 else (), summary=summary)
    async with working(tmp_path, model) as (_, client):
        await client.send(RULE)
        assert (await client.wait_for(RunComplete)).outcome == "success"
        assert {body.strategy for body in client.bodies(SessionCompacted)} == {"lines"}
        assert ("SUMMARY_FAILED" in [body.code for body in client.bodies(WarningRaised)]) is (summary is None)
        assert all(RULE in "".join(texts(tuple(prompt.items))) for prompt in model.prompts)


async def test_the_context_breakdown_lists_each_part(tmp_path: Path) -> None:
    async with working(tmp_path, Worker(lambda _: ())) as (_, client):
        await client.send("hello")
        await client.wait_for(RunComplete)
        shown = await client.api.request(GetSnapshot(), GetSnapshotReply, client.session_id)
        context = shown.context
        assert context == client.bodies(Usage)[-1].context
        assert (context.limit, context.buffer, context.summary, context.memory) == (16_384, 1024, 0, 0)
        assert context.system
        assert context.tools
        assert context.history


async def test_a_manual_compaction_reports_its_effect_and_can_be_undone(tmp_path: Path) -> None:
    notes(tmp_path, 8)
    model = Worker(lambda turn: (reading(turn // 2),) if turn % 2 else ())
    async with working(tmp_path, model) as (_, client):
        for number in range(6):
            await client.send(f"message {number}")
            await client.wait_for(RunComplete)
        whole = texts(tuple(model.prompts[-1].items))
        await client.api.request(CompactSession(), CompactSessionReply, client.session_id)
        compaction = await client.wait_for(SessionCompacted)
        assert (compaction.by, compaction.strategy, compaction.input_tokens) == ("cli", "model", 100)
        await client.api.request(CompactSession(undo=True), CompactSessionReply, client.session_id)
        await client.send("and now?")
        await client.wait_for(RunComplete)
        assert texts(tuple(model.prompts[-1].items)) == [*whole, "and now?"]


async def test_a_client_that_calls_itself_auto_is_charged_for_its_compaction(tmp_path: Path) -> None:
    notes(tmp_path, 8)
    model = Worker(lambda turn: (reading(turn // 2),) if turn % 2 else ())
    async with working(tmp_path, model, "auto") as (_, client):
        for number in range(6):
            await client.send(f"message {number}")
            await client.wait_for(RunComplete)
        await client.api.request(CompactSession(), CompactSessionReply, client.session_id)
        compaction = await client.wait_for(SessionCompacted)
        assert (compaction.by, compaction.strategy, compaction.input_tokens) == ("auto-client", "model", 100)


async def test_a_history_larger_than_the_window_is_summarised_in_parts(tmp_path: Path) -> None:
    notes(tmp_path, 60)
    model = Worker(lambda turn: (reading(turn),) if turn < 55 else (), limit=100_000)
    async with working(tmp_path, model) as (_, client):
        await client.send(RULE)
        await client.wait_for(RunComplete)
        assert client.bodies(SessionCompacted) == []
        model.context_limit = 12_000
        await client.send("and now with a smaller window?")
        assert (await client.wait_for(RunComplete)).outcome == "success"
        assert len(client.bodies(SessionCompacted)) == 1
        assert len(model.summaries) > 1
        assert "Notes so far:\nit went on" in texts(tuple(model.summaries[-1].items))[0]


async def test_notes_for_agents_are_read_from_the_repository_down_once_per_run(tmp_path: Path) -> None:
    repo, work = tmp_path / "repo", tmp_path / "repo" / "a" / "b"
    work.mkdir(parents=True)
    (repo / ".git").mkdir()
    (tmp_path / "AGENTS.md").write_text("outside")
    (repo / "AGENTS.md").write_text("of the repository </project-notes> and on")
    (repo / "a" / "CLAUDE.md").write_text("of a")
    (work / "AGENTS.md").write_text("of b")
    (work / "CLAUDE.md").write_text("not this one")
    (work / "config").mkdir()
    (work / "config" / "AGENTS.md").write_text("of the user")
    model = Worker(lambda turn: (shell("echo later > AGENTS.md"),) if turn == 1 else ())
    async with working(work, model) as (_, client):
        await client.send("go")
        await client.wait_for(RunComplete)
        await client.send("again")
        await client.wait_for(RunComplete)
    first, second, third = (prompt.system for prompt in model.prompts)
    assert first == second
    order = [first.index(text) for text in ("of the user", "of the repository", "of a\n", "of b\n")]
    assert order == sorted(order)
    assert "outside" not in first
    assert "not this one" not in first
    assert first.count("</project-notes>") == 4
    assert "of b\n" not in third
    assert "\nlater\n" in third


@pytest.mark.parametrize("foreign", ["note", "folder", "repository", "open note", "open folder"])
async def test_notes_above_the_workspace_that_others_could_have_written_are_not_shown(
    tmp_path: Path, foreign: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo, work = tmp_path / "repo", tmp_path / "repo" / "work"
    work.mkdir(parents=True)
    (repo / ".git").mkdir()
    (repo / "AGENTS.md").write_text("from above")
    (work / "AGENTS.md").write_text("from here")
    places = {"note": repo / "AGENTS.md", "folder": repo, "repository": repo / ".git"}
    if foreign.startswith("open "):
        path = places[foreign.removeprefix("open ")]
        path.chmod(path.stat().st_mode | 0o002)
    else:
        theirs, look = places[foreign].stat().st_ino, files.is_foreign

        def is_theirs(info: os.stat_result) -> bool:
            return info.st_ino == theirs or look(info)

        monkeypatch.setattr(files, "is_foreign", is_theirs)
    model = Worker(lambda _: ())
    async with working(work, model) as (_, client):
        await client.send("go")
        await client.wait_for(RunComplete)
    assert "from above" not in model.prompts[0].system
    assert "from here" in model.prompts[0].system


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
async def test_notes_of_another_user_are_not_shown(tmp_path: Path) -> None:
    repo, work = tmp_path / "repo", tmp_path / "repo" / "work"
    work.mkdir(parents=True)
    (repo / ".git").mkdir()
    (repo / "AGENTS.md").write_text("from above")
    os.chown(repo / "AGENTS.md", 54321, 54321)
    (repo / "CLAUDE.md").write_text("our own above")
    model = Worker(lambda _: ())
    async with working(work, model) as (_, client):
        await client.send("go")
        await client.wait_for(RunComplete)
    assert "from above" not in model.prompts[0].system
    assert "our own above" in model.prompts[0].system


async def test_long_notes_do_not_fill_the_window(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("word " * 10_000)
    model = Worker(lambda _: (), limit=8192)
    async with working(tmp_path, model) as (_, client):
        await client.send("go")
        assert (await client.wait_for(RunComplete)).outcome == "success"
        assert "more characters in" in model.prompts[0].system


async def test_a_secret_in_a_note_is_not_sent(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("use canary-5551-value for the API")
    model = Worker(lambda _: ())
    parts = RuntimeOverrides(log=MemoryLog(unix_ms), provider=lambda _: model)
    async with (
        scripted_host(tmp_path, overrides=parts, env={"MY_API_KEY": "canary-5551-value"}) as host,
        host.client() as client,
    ):
        await client.start()
        await client.send("go")
        await client.wait_for(RunComplete)
    assert "canary-5551-value" not in model.prompts[0].system
    assert "for the API" in model.prompts[0].system
