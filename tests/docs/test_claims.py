"""What the documents say of a run, seen from a client: liveness, reasoning, the prompt, the cost."""

import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from buddy.cli.commands import parse
from buddy.cli.session_options import pane_of, target_of, workspace_of
from buddy.config.settings import Profile
from buddy.errors import UserError
from buddy.models.contract import Piece, Prompt, TokenUsage
from buddy.models.script import Script, ScriptedReply
from buddy.models.scripted import Scripted
from buddy.protocol.events import Progress, RunComplete, Status, ThinkingToken, Usage
from buddy.protocol.shapes import BudgetLimits
from buddy.terminal.status_line import prompt_text
from tests.harness.installed import need
from tests.harness.models import calls, says
from tests.harness.runtime import scripted_host


class Listening(Scripted):
    """A scripted model that keeps the prompts it is given."""

    def __init__(self, *replies: ScriptedReply) -> None:
        super().__init__("test", Script(replies=replies))
        self.prompts: list[Prompt] = []

    async def stream(self, prompt: Prompt) -> AsyncIterator[Piece]:
        self.prompts.append(prompt)
        async for piece in super().stream(prompt):
            yield piece


@pytest.fixture
def tmux_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    need("tmux")
    for name in ("TMUX", "TMUX_PANE"):
        monkeypatch.delenv(name, raising=False)
    # Not pytest's own directory: the path of a socket may be 107 bytes long.
    with tempfile.TemporaryDirectory(prefix="docs-") as place:
        monkeypatch.setenv("TMUX_TMPDIR", place)
        yield
        subprocess.run(["tmux", "kill-server"], check=False, capture_output=True)


async def test_progress_is_reported_before_each_model_call_and_before_the_tools(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("three notes\n", encoding="utf-8")
    replies = (calls(("read_file", {"path": "notes.txt"}), ("read_file", {"path": "notes.txt"})), says("done"))
    async with scripted_host(tmp_path, *replies) as host, host.client() as client:
        await client.start()
        await client.send("read")
        await client.wait_for(RunComplete)
        assert [(told.kind, told.message, told.turn) for told in client.bodies(Progress)] == [
            ("provider_call", "[1/50] Calling provider", 1),
            ("tool_execution", "[1/50] Executing tools: read_file, read_file", 1),
            ("provider_call", "[2/50] Calling provider", 2),
        ]
        assert client.bodies(Progress)[1].tool_names == ("read_file", "read_file")
        assert {status.phase for status in client.bodies(Status)} == {"Calling model"}


async def test_reasoning_is_shown_as_it_comes(tmp_path: Path) -> None:
    async with scripted_host(tmp_path, says("four", thinking="two and two")) as host, host.client() as client:
        await client.start()
        await client.send("add")
        await client.wait_for(RunComplete)
        assert "".join(thought.text for thought in client.bodies(ThinkingToken)) == "two and two"


async def test_the_model_learns_where_it_works_with_what_and_how(tmp_path: Path) -> None:
    model = Listening(says("done"))
    async with scripted_host(tmp_path, provider=lambda _: model) as host, host.client() as client:
        await client.start(system_prompt="Speak like a pirate.")
        await client.send("work")
        await client.wait_for(RunComplete)
    (prompt,) = model.prompts
    assert f"Workspace: {tmp_path} on local. Sandbox: host." in prompt.system
    assert prompt.system.endswith("Speak like a pirate.\n")
    assert {"read_file", "run_shell", "write_file"} <= {tool.name for tool in prompt.tools}


async def test_without_a_pane_no_tool_for_panes_is_offered(tmp_path: Path) -> None:
    model = Listening(says("done"))
    async with scripted_host(tmp_path, provider=lambda _: model) as host, host.client() as client:
        await client.start()
        await client.send("work")
        await client.wait_for(RunComplete)
    (prompt,) = model.prompts
    assert not {"capture-pane", "send-keys"} & {tool.name for tool in prompt.tools}
    assert "<terminal>" not in prompt.system


@pytest.mark.usefixtures("tmux_server")
async def test_with_a_pane_its_screen_and_its_tools_are_in_the_prompt(tmp_path: Path) -> None:
    model = Listening(calls(("run_shell", {"command": "echo seen-in-the-pane"})), says("done"), says("again"))
    async with scripted_host(tmp_path, provider=lambda _: model) as host, host.client() as client:
        await client.start(tmux=True, approval_policy="all")
        for text in ("work", "go on"):
            await client.send(text)
            await client.wait_for(RunComplete)
    last = model.prompts[-1]
    assert {"capture-pane", "send-keys"} <= {tool.name for tool in last.tools}
    assert "seen-in-the-pane" in last.system.partition("<terminal>")[2]


async def test_a_plan_is_made_with_tools_that_only_look(tmp_path: Path) -> None:
    model = Listening(calls(("write_file", {"path": "out.txt", "content": "x"})), says("done"))
    async with scripted_host(tmp_path, provider=lambda _: model) as host, host.client() as client:
        await client.start(plan=True, approval_policy="all")
        await client.send("work")
        await client.wait_for(RunComplete)
    offered = {tool.name for tool in model.prompts[0].tools}
    assert {"read_file", "grep"} <= offered
    assert not offered & {"run_shell", "write_file", "edit_file", "fetch_url", "web_search"}
    assert not (tmp_path / "out.txt").exists()


@pytest.mark.parametrize(
    ("flags", "target", "pane"),
    [
        ([], "local", None),
        (["--container", "web"], "container:web", None),
        (["--ssh", "me@host", "--tmux"], "ssh:me@host", True),
        (["--tmux", "shared"], "local", "shared"),
        (["--no-tmux"], "local", None),
    ],
)
def test_flags_say_where_to_work(flags: list[str], target: str, pane: bool | str | None) -> None:
    options = parse(["exec", "look", "-C", "/", *flags])
    assert (target_of(options), pane_of(options), workspace_of(options)) == (target, pane, "/")


def test_elsewhere_the_directory_must_be_named_in_full() -> None:
    with pytest.raises(UserError, match="--ssh needs -C /absolute/path"):
        workspace_of(parse(["exec", "look", "--ssh", "me@host"]))


def test_the_input_line_says_where_commands_run() -> None:
    assert [prompt_text(target) for target in ("local", "ssh:me@host", "container:box")] == [
        "> ",
        "(ssh me@host)> ",
        "(container box)> ",
    ]


async def test_what_a_run_costs_adds_up_to_its_limit(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("three notes\n", encoding="utf-8")
    spent = calls(("read_file", {"path": "notes.txt"}), usage=TokenUsage(10, 5, cost_usd=0.25))
    priced = {"test": Profile(api="scripted", input_price=0, output_price=0)}
    async with scripted_host(tmp_path, spent, spent, spent, profiles=priced) as host, host.client() as client:
        await client.start(budget=BudgetLimits(max_cost_usd=0.5))
        await client.send("read on")
        done = await client.wait_for(RunComplete)
        assert (done.outcome, done.reason) == ("failed", "budget_exceeded")
        assert [usage.budget.cost_usd for usage in client.bodies(Usage)] == [0.25, 0.5]
        assert [usage.budget.tokens for usage in client.bodies(Usage)] == [15, 30]
