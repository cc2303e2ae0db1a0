"""Keys for a terminal are judged as the text they type."""

from collections.abc import Sequence

import pytest

from buddy.approvals.decide import Mode, decide
from buddy.approvals.permissions import Permissions
from buddy.approvals.questions import Opinion, Question
from buddy.approvals.rules import Rule, Rules
from buddy.protocol.intents import Keys
from buddy.protocol.typed_text import InputLine

EMPTY: tuple[str, ...] = ()


@pytest.mark.parametrize(
    ("text", "keys", "decision"),
    [
        ("curl x", ["Enter"], "deny"),
        ("sudo curl x", EMPTY, "deny"),
        ("", ["c", "u", "r", "l", "Space", "x", "Enter"], "deny"),
        ("cu", ["r", "l", "Enter"], "deny"),
        ("cat secrets/key", ["Enter"], "deny"),
        ("", ["curl x", "Enter"], "deny"),
        ("", ["curl", "Space", "x", "Enter"], "deny"),
        ("", ["curl", "SPACE", "x", "C-m"], "deny"),
        ("", ["0x63", "0x75", "0x72", "0x6c", "0x20", "x", "^M"], "deny"),
        ("rl x", ["Home", "cu", "Enter"], "deny"),
        ("rl x", ["C-a", "c", "u", "End", "KPEnter"], "deny"),
        ("cuXrl x", ["Left", "Left", "Left", "Left", "BSpace", "Enter"], "deny"),
        ("cu\\\nrl x\n", EMPTY, "deny"),
        ("cu\\", ["Enter", "rl x", "Enter"], "deny"),
        ("ls\rcurl x\r", EMPTY, "deny"),
        ("ls; curl x", ["C-j"], "deny"),
        ("", ["S-c", "url x", "Enter"], "deny"),
        ("cur", ["Tab", "x", "Enter"], "ask"),
        ("", ["Up", "Enter"], "ask"),
        ("ls\t\n", EMPTY, "ask"),
        ("", ["C-y", "Enter"], "ask"),
        ("", ["Up"], "allow"),
        ("", ["Up", "C-c", "ls", "Enter"], "allow"),
        ("curl", ["C-u", "ls", "Enter"], "allow"),
        ("ls", ["Enter"], "allow"),
        ("", ["C-c"], "allow"),
    ],
)
def test_what_is_typed_into_a_pane_is_denied_like_a_command(text: str, keys: Sequence[str], decision: str) -> None:
    known = (Rule("deny", argv=("curl", "**")), Rule("deny", path="secrets/"), Rule("allow", tool="send-keys"))
    intent = Keys(title="send keys", summary="", target="local", pane="", text=text, keys=tuple(keys))
    question = Question("call_1", "privileged", intent, "digest", "send-keys")
    assert Permissions("/w", lambda: Rules(known)).judge(question).decision == decision


@pytest.mark.parametrize(
    ("calls", "decision"),
    [
        ([("tou", EMPTY), ("ch bad4", ["Enter"])], "deny"),
        ([("", ["t"]), ("", ["o"]), ("", ["uch", "Space"]), ("bad", ["Enter"])], "deny"),
        ([("tou\\", ["Enter"]), ("ch bad", ["Enter"])], "deny"),
        ([("echo 'x", ["Enter"]), ("'; touch bad", ["Enter"])], "deny"),
        ([("uch bad", ["Home"]), ("to", ["Enter"])], "deny"),
        ([("tou", ["Enter"]), ("ch bad", ["Enter"])], "allow"),
        ([("tou", ["C-c"]), ("ch bad", ["Enter"])], "allow"),
        ([("tou", ["Tab"]), ("x", ["Enter"])], "ask"),
        ([("x" * 9000, EMPTY), ("", ["Enter"])], "ask"),
    ],
)
def test_what_is_typed_in_several_calls_is_judged_as_one_line(
    calls: Sequence[tuple[str, Sequence[str]]], decision: str
) -> None:
    known = (Rule("deny", argv=("touch", "**")), Rule("allow", tool="send-keys"))
    permissions, line = Permissions("/w", lambda: Rules(known)), InputLine()
    said = Opinion(None, "")
    for text, keys in calls:
        intent = Keys(title="", summary="", target="local", pane="", text=text, keys=tuple(keys), before=line)
        line = intent.typed.after
        said = permissions.judge(Question("call_1", "privileged", intent, "digest", "send-keys"))
    assert said.decision == decision
    assert said.must_ask is (decision == "ask")


def test_a_line_that_cannot_be_checked_is_not_approved_by_a_policy() -> None:
    intent = Keys(title="", summary="", target="local", pane="", text="tou\t x\n", keys=())
    question = Question("call_1", "privileged", intent, "digest", "send-keys")
    opinion = Permissions("/w", lambda: Rules((Rule("deny", argv=("touch", "**")),))).judge(question)
    assert decide(question, opinion, "all", None, Mode()).verdict == "ask"
    assert decide(question, Permissions("/w").judge(question), "all", None, Mode()).verdict == "approve"
