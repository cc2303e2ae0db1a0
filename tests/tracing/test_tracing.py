"""Traces, as a real OTLP receiver gets them."""

import subprocess
import sys
from pathlib import Path

import pytest

from buddy.daemon.runtime import RuntimeOverrides, unix_ms
from buddy.daemon.tracing import endpoint_of
from buddy.errors import ProviderError
from buddy.log.memory import MemoryLog
from buddy.models.contract import Retrying, TokenUsage
from buddy.protocol.events import ApprovalRequired, RunComplete
from buddy.protocol.requests import SubmitApproval
from buddy.protocol.shapes import BudgetLimits
from tests.harness.models import StepModel, answer, asks_for, call, shell
from tests.harness.runtime import RuntimeClient, scripted_host
from tests.tracing.collector import Collector

CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"


async def trace(tmp_path: Path, collector: Collector, model: StepModel, **env: str) -> RuntimeClient:
    """One run, all of it allowed, and everything exported."""
    parts = RuntimeOverrides(log=MemoryLog(unix_ms), provider=lambda _: model)
    settings = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, **env}
    async with scripted_host(tmp_path, overrides=parts, env=settings) as host, host.client() as client:
        await client.start(approval_policy="all", budget=BudgetLimits(max_turns=7))
        await client.send("please be secretive")
        await client.wait_for(RunComplete)
        return client


async def test_a_run_is_a_tree_of_turns_model_calls_and_tool_calls(tmp_path: Path) -> None:
    model = StepModel(asks_for(shell("echo one")), answer("done", usage=TokenUsage(30, 7)))
    with Collector() as collector:
        await trace(tmp_path, collector, model)
    tree = sorted((span.name, collector.parent_of(span)) for span in collector.spans)
    assert tree == [
        ("chat step-by-step", "turn 1"),
        ("chat step-by-step", "turn 2"),
        ("execute_tool run_shell", "turn 1"),
        ("invoke_agent buddy", ""),
        ("turn 1", "invoke_agent buddy"),
        ("turn 2", "invoke_agent buddy"),
    ]
    assert len({span.trace_id for span in collector.spans}) == 1
    assert all(0 < span.start_ns <= span.end_ns for span in collector.spans)


async def test_spans_have_the_names_of_the_genai_conventions(tmp_path: Path) -> None:
    model = StepModel(asks_for(shell("echo one")), answer("done", usage=TokenUsage(30, 7, cached_tokens=5)))
    with Collector() as collector:
        client = await trace(tmp_path, collector, model)
    call = max(collector.named("chat step-by-step"), key=lambda span: span.start_ns).attributes
    assert call["gen_ai.operation.name"] == "chat"
    assert call["gen_ai.provider.name"] == "test"
    assert call["gen_ai.request.model"] == "step-by-step"
    assert call["gen_ai.usage.input_tokens"] == 30
    assert call["gen_ai.usage.output_tokens"] == 7
    assert call["gen_ai.usage.cache_read.input_tokens"] == 5
    assert call["gen_ai.response.finish_reasons"] == ["stop"]
    [tool] = collector.named("execute_tool run_shell")
    assert tool.attributes["gen_ai.operation.name"] == "execute_tool"
    assert tool.attributes["gen_ai.tool.name"] == "run_shell"
    assert tool.attributes["buddy.tool.tier"] == "privileged"
    assert tool.attributes["buddy.exit_code"] == 0
    assert tool.events == ["approval_received"]
    [run] = collector.named("invoke_agent buddy")
    assert run.attributes["gen_ai.conversation.id"] == client.session_id
    assert run.attributes["gen_ai.usage.input_tokens"] == 40
    assert run.attributes["buddy.outcome"] == "success"
    assert collector.resources[0]["service.name"] == "buddy"


async def test_the_budget_is_on_the_run(tmp_path: Path) -> None:
    with Collector() as collector:
        await trace(tmp_path, collector, StepModel(answer("done", usage=TokenUsage(30, 7))))
    [run] = collector.named("invoke_agent buddy")
    assert run.attributes["buddy.budget.max_turns"] == 7
    assert run.attributes["buddy.budget.turns"] == 1
    assert run.attributes["buddy.budget.tokens"] == 37
    assert isinstance(run.attributes["buddy.context.utilization"], float)


async def test_content_is_left_out_unless_it_is_asked_for(tmp_path: Path) -> None:
    def model() -> StepModel:
        return StepModel(asks_for(shell("echo hush | tr a-z A-Z")), answer("whispered"))

    with Collector() as collector:
        await trace(tmp_path, collector, model())
        silent = b"".join(collector.bodies)
        await trace(tmp_path, collector, model(), **{CAPTURE: "true"})
        spoken = b"".join(collector.bodies)
    for content in (b"please be secretive", b"whispered", b"echo hush", b"HUSH"):
        assert content not in silent
        assert content in spoken


async def test_failures_are_errors(tmp_path: Path) -> None:
    model = StepModel(asks_for(shell("exit 3")), [ProviderError("overloaded", retryable=False)])
    with Collector() as collector:
        await trace(tmp_path, collector, model)
    [tool] = collector.named("execute_tool run_shell")
    assert (tool.is_error, tool.attributes["error.type"]) == (True, "EXEC_NON_ZERO_EXIT")
    [run] = collector.named("invoke_agent buddy")
    assert (run.is_error, run.attributes["error.type"]) == (True, "provider_error")


async def test_a_retry_is_reported_on_its_call(tmp_path: Path) -> None:
    with Collector() as collector:
        await trace(tmp_path, collector, StepModel([Retrying(2, "busy", 10), *answer("done")]))
    [call] = collector.named("chat step-by-step")
    assert call.events == ["retry"]


async def test_a_question_is_reported_on_its_tool_call(tmp_path: Path) -> None:
    parts = RuntimeOverrides(
        log=MemoryLog(unix_ms), provider=lambda _: StepModel(asks_for(shell("true")), answer("ok"))
    )
    with Collector() as collector:
        env = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url}
        async with scripted_host(tmp_path, overrides=parts, env=env) as host, host.client() as client:
            await client.start()
            run_id = await client.send("go")
            asked = await client.wait_for(ApprovalRequired)
            await client.api.approve(SubmitApproval(client.session_id, run_id, asked.approval_id, "approve"))
            await client.wait_for(RunComplete)
    [tool] = collector.named("execute_tool run_shell")
    assert tool.events == ["approval_required", "approval_received"]


async def test_a_stopped_run_is_exported_with_its_outcome(tmp_path: Path) -> None:
    model = StepModel(asks_for(shell("sleep 600")))
    parts = RuntimeOverrides(log=MemoryLog(unix_ms), provider=lambda _: model)
    with Collector() as collector:
        env = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url}
        async with scripted_host(tmp_path, overrides=parts, env=env) as host, host.client() as client:
            await client.start()
            await client.send("go")
            await client.wait_for(ApprovalRequired)
    [run] = collector.named("invoke_agent buddy")
    assert run.attributes["buddy.outcome"] == "cancelled"
    assert len(collector.spans) == 4


@pytest.mark.parametrize(
    ("env", "endpoint"),
    [
        ({}, None),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318/"}, "http://c:4318/v1/traces"),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://t/x"}, "http://t/x"),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, "http://127.0.0.1:4318/v1/traces"),
        ({"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://c"}, None),
        ({"OTEL_SDK_DISABLED": "true", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://c"}, None),
        ({"OTEL_SERVICE_NAME": "mine"}, None),
    ],
)
def test_the_environment_decides_where_traces_go(env: dict[str, str], endpoint: str | None) -> None:
    assert endpoint_of(env) == endpoint


def test_nothing_is_imported_unless_traces_are_wanted() -> None:
    program = (
        "import sys\n"
        "import buddy.daemon.runtime\n"
        "from buddy.daemon.tracing import start_tracing\n"
        "assert start_tracing({}) is None\n"
        "print([name for name in sys.modules if name.partition('.')[0] in ('opentelemetry', 'numpy', 'google')])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "[]\n"


async def test_every_tool_span_has_a_tier_and_turns_have_the_changes_of_state(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("one")
    model = StepModel(asks_for(call("read_file", {"path": "notes.txt"})), answer("done"))
    with Collector() as collector:
        await trace(tmp_path, collector, model)
    [tool] = collector.named("execute_tool read_file")
    assert tool.attributes["buddy.tool.tier"] == "read-only"
    [first] = collector.named("turn 1")
    assert first.events == ["state_changed", "state_changed"]
    [last] = collector.named("turn 2")
    assert last.events == ["state_changed", "state_changed"]
