"""Short texts of the screen, without one: rules, decisions, the activity line."""

import pytest

from buddy.client.view import RunView
from buddy.protocol.events import (
    ApprovalPolicyChanged,
    ApprovalReceived,
    EventBody,
    ModelRequest,
    Progress,
    RunCancelling,
)
from buddy.terminal.activity_line import ActivityLine
from buddy.terminal.approval_prompt import describe_rule
from buddy.terminal.blocks import event_block
from buddy.terminal.style import Style

PLAIN = Style(on=False)


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        (
            {"decision": "allow", "tool": "run_shell", "argv": ["ls", "-la"], "target": "local"},
            "`ls -la` on this machine",
        ),
        ({"tool": "run_shell", "argv": ["git", "commit", "-m", "a b"]}, '`git commit -m "a b"`'),
        ({"tool": "run_shell", "argv": ["a", 'b"c', "", "`"]}, '`a "b\\"c" "" "`"`'),
        ({"tool": "run_shell", "argv": ["git", "**"], "target": "ssh:box"}, "`git **` on ssh:box"),
        ({"tool": "run_shell", "argv": ["pip"], "network": True}, "`pip` with network"),
        ({"tool": "edit_file", "path": "a b.py", "workspace": "/w"}, 'edit_file "a b.py" in /w'),
        ({"tool": "fetch_url", "host": "x.test", "later": [1]}, "fetch_url x.test later = [1]"),
        ({"tool": "run_shell", "argv": ["a\u200db\x1b[2J"]}, "`a\\u200db\\x1b[2J`"),
    ],
)
def test_a_rule_in_words(rule: dict[str, object], text: str) -> None:
    assert describe_rule(rule) == f"allow {text}"


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (ApprovalReceived(approval_id="a", decision="approve", by="cli"), "  ✓ approved by you"),
        (
            ApprovalReceived(approval_id="a", decision="approve", by="cli", scope="until", expires_at=600_500),
            "  ✓ approved by you for 10 minutes",
        ),
        (
            ApprovalReceived(approval_id="a", decision="approve", by="web", scope="session"),
            "  ✓ approved by web for this session",
        ),
        (ApprovalReceived(approval_id="a", decision="deny", by="cli", comment="no"), "  ✗ denied by you: no"),
        (
            ApprovalReceived(approval_id="a", decision="deny", by="rule:9f", comment="by rule 9f: deny curl **"),
            "  ✗ denied by rule 9f (deny curl **)",
        ),
        (ApprovalReceived(approval_id="a", decision="approve", by="rule:9f"), "  ✓ allowed by rule 9f"),
        (
            ApprovalReceived(approval_id="a", decision="approve", by="rule:session"),
            "  ✓ allowed by your approval for this session",
        ),
        (RunCancelling(reason="user_cancelled", by="cli"), "  ■ Stopping…"),
        (RunCancelling(reason="timeout", by="cli"), "  ■ Stopping (timeout)…"),
        (RunCancelling(reason="user_cancelled", by="web"), "  ■ Stopping (by web)…"),
        (
            ApprovalPolicyChanged(policy="until", by="web", expires_at=600_500),
            "  approvals: auto-approving everything for 10m 00s (changed by web)",
        ),
        (
            ModelRequest(turn=1, profile="p", model="m", api="a", attempt=2, wait_ms=371, reason="refused"),
            "  ↻ Retrying in 0.4 s: refused",
        ),
    ],
)
def test_an_event_in_words(body: EventBody, text: str) -> None:
    assert event_block(body, PLAIN, ts=500) == text


def test_the_activity_line_says_what_is_going_on_and_for_how_long() -> None:
    now = 100.0
    line = ActivityLine(PLAIN, lambda: now)
    run = RunView("run_1")
    run.started_ts, run.input_tokens, run.output_tokens = 90_000, 1200, 30

    def shown(*, is_waiting: bool = False) -> str:
        return line.line(run, 200, is_waiting=is_waiting)[2:]

    ending = "10s total · 1.2k in, 30 out · Esc to interrupt"
    line.start_run(90_000)
    assert shown() == f"Starting… · {ending}"
    line.update(Progress(kind="provider_call", message="", turn=1, max_turns=50), 91_000)
    assert shown() == f"Thinking… · turn 1/50 · {ending}"
    running = Progress(kind="tool_execution", message="", turn=1, max_turns=50, tool_names=("run_shell",))
    line.update(running, 92_000)
    assert shown(is_waiting=True) == f"Waiting for your approval · turn 1/50 · {ending}"
    counted = line.line(run, 200, is_waiting=True, expires_at=399_000)[2:]
    assert counted == f"Waiting for your approval · expires in 4m 59s · turn 1/50 · {ending}"
    line.restart_step(95_000)
    line.update(running, 99_000)
    assert shown() == f"Running run_shell · 5s · turn 1/50 · {ending}"
    line.set_deadline(160)
    line.stop_run()
    assert shown() == "Stopping… · 10s total · 1.2k in, 30 out · 1m 00s left · Esc to interrupt"
    assert len(line.line(run, 40, is_waiting=False)) < 40
