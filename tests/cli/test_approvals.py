"""`buddy approvals` and `buddy trust`, as a person types them."""

import json

from cli.driving import Home, Reply, shell

RULES = """
[[permissions.rules]]
decision = "allow"
argv = ["echo", "**"]

[[permissions.rules]]
decision = "deny"
argv = ["curl", "**"]
"""


def ruled(home: Home, *replies: Reply) -> Home:
    home.script(*replies)
    config = home.directory / ".config" / "buddy" / "buddy.toml"
    config.write_text(config.read_text() + RULES)
    return home


def test_the_audit_tells_who_decided_what_without_a_daemon(home: Home) -> None:
    ruled(home, shell("echo hi"), shell("curl \x1b[31mx"), shell("touch y"), {"text": "done"})
    assert home.run("exec", "go", "--approve", "all").code == 0
    done = home.run("approvals", "log")
    lines = done.out.splitlines()
    assert [line.split()[2] for line in lines] == ["approve", "deny", "approve"]
    assert ["run_shell echo hi" in lines[0], "run_shell curl" in lines[1], "policy" in lines[2]] == [True] * 3
    assert "\x1b" not in done.out
    found = json.loads(home.run("approvals", "log", "--json").out)["decisions"]
    assert [made["by"].partition(":")[0] for made in found] == ["rule", "rule", "policy"]
    assert [made["summary"] for made in found] == ["echo hi", "curl \x1b[31mx", "touch y"]
    session = found[0]["sessionId"]
    assert home.run("approvals", "log", "--session", session, "--limit", "1").out.splitlines() == lines[2:]
    assert home.run("approvals", "log", "--since", "1h").out == done.out
    assert home.run("approvals", "log", "--since", "2100-01-01").out == ""


def test_what_the_audit_cannot_answer_is_one_line_and_a_hint(home: Home) -> None:
    ruled(home, {"text": "done"})
    empty = home.run("approvals", "log")
    assert (empty.code, empty.out, empty.err) == (0, "", "no decision was made yet\n")
    for flags in (("--limit", "0"), ("--since", "soon"), ("--session", "sess_NOPE")):
        wrong = home.run("approvals", "log", *flags)
        assert (wrong.code, wrong.out) == (64, "")
        assert len(wrong.err.splitlines()) <= 2
        assert wrong.err.startswith("error: ")
