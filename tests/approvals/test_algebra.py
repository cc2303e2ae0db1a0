"""The algebra of permissions: what is added to be stricter never allows more, whatever it is added to."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from buddy.approvals.rules import LEVELS, Rule, Rules, Subject, read_rules, suggest
from buddy.approvals.trust import Trust
from buddy.config.settings import ToolSettings
from buddy.protocol.envelopes import event_of
from buddy.protocol.events import ApprovalReceived
from buddy.sessions.state import SessionFold
from buddy.tools.toolbox import ToolDeps, toolbox

RANK = {"deny": 0, "ask": 1, None: 1, "allow": 2}

tools = st.sampled_from(["run_shell", "write_file", "read_file", "fetch_url"])
patterns = st.lists(st.sampled_from(["git", "ls", "curl", "*", "**", "log", "-x"]), min_size=1, max_size=3).map(tuple)
paths = st.sampled_from(["src/**", "src/a.py", "**/.env", ".env", "secrets/", "/etc/**", "*"])
hosts = st.sampled_from(["example.com", "*.example.com", "EXAMPLE.com.", "127.0.0.1"])
keys = {
    "tool": st.none() | tools | st.just("*"),
    "argv": st.none() | patterns,
    "path": st.none() | paths,
    "host": st.none() | hosts,
    "sandbox": st.none() | st.sampled_from(LEVELS),
    "target": st.none() | st.sampled_from(["local", "ssh:*", "container:web"]),
    "workspace": st.none() | st.sampled_from(["/w", "/v"]),
}
rules = st.builds(Rule, st.sampled_from(["allow", "ask", "deny"]), **keys)
denials = st.builds(Rule, st.sampled_from(["deny", "ask"]), **keys)
words = st.sampled_from(["git", "ls", "curl", "log", "-x", "x", ".env", "src/a.py", "https://example.com/", "a b"])
commands = st.lists(words, min_size=1, max_size=4).map(lambda found: " ".join(f"'{word}'" for word in found))
chains = st.lists(commands, min_size=1, max_size=3)
places = {
    "sandbox": st.sampled_from(LEVELS),
    "target": st.sampled_from(["local", "ssh:build", "container:web"]),
    "workspace": st.sampled_from(["/w", "/v"]),
}
subjects = (
    st.builds(Subject, st.just("run_shell"), command=chains.map(" && ".join), cwd=st.just("/w"), **places)
    | st.builds(Subject, tools, path=st.sampled_from(["src/a.py", ".env", "secrets/a", "/etc/passwd"]), **places)
    | st.builds(Subject, tools, host=st.sampled_from(["example.com", "a.example.com", "0x7f.1"]), **places)
    | st.builds(Subject, tools, **places)
)


def rank(found: list[Rule] | tuple[Rule, ...], subject: Subject) -> int:
    return RANK[Rules(found).judge(subject).decision]


@given(st.lists(rules, max_size=5), denials, subjects)
def test_what_is_added_to_be_stricter_never_allows_more(known: list[Rule], more: Rule, subject: Subject) -> None:
    assert rank([*known, more], subject) <= rank(known, subject)
    assert rank([more, *known], subject) == rank([*known, more], subject)


@given(st.lists(rules, max_size=4), rules, subjects, st.data())
def test_an_allow_rule_with_one_key_more_allows_no_more(
    known: list[Rule], rule: Rule, subject: Subject, data: st.DataObject
) -> None:
    allowing = replace(rule, decision="allow")
    name = data.draw(st.sampled_from(sorted(keys)))
    if getattr(allowing, name) is None:
        narrower = replace(allowing, **{name: data.draw(keys[name])})
        if name == "argv" and narrower.is_literal:
            return  # a command that is said word for word is meant, whatever a wildcard would make of it
        assert rank([*known, narrower], subject) <= rank([*known, allowing], subject)


@given(st.lists(rules, max_size=5), chains, st.sampled_from([" && ", " || ", "; ", " | "]))
def test_a_chain_is_allowed_no_more_than_each_of_its_parts(known: list[Rule], parts: list[str], joint: str) -> None:
    def judged(command: str) -> int:
        return rank(known, Subject("run_shell", command=command, workspace="/w", cwd="/w"))

    assert judged(joint.join(parts)) <= min(map(judged, parts))


@given(st.lists(rules, max_size=4), st.lists(rules, max_size=4), subjects)
def test_a_project_never_exceeds_its_user(own: list[Rule], project: list[Rule], subject: Subject) -> None:
    """As a trusted folder's own file is read: what allows is left out."""
    kept = [rule for rule in project if rule.decision in ("ask", "deny")]
    assert rank([*own, *kept], subject) <= rank(own, subject)


def test_what_allows_in_a_projects_file_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "buddy.toml").write_text(
        "".join(f'[[permissions.rules]]\ndecision = "{word}"\nargv = ["x"]\n' for word in ("allow", "ask", "deny"))
    )
    trust = Trust(tmp_path / "state")
    trust.set(str(tmp_path), trusted=True)
    found = read_rules({"rules": list(trust.project_rules(str(tmp_path)).rules)})
    assert [rule.decision for rule in found.rules] == ["ask", "deny"]


@given(subjects, subjects)
def test_a_suggested_rule_allows_what_was_asked_and_nothing_that_is_not_the_same(one: Subject, other: Subject) -> None:
    rule = suggest(one)
    if rule is None:
        return
    assert rank([rule], one) == RANK["allow"]
    if rank([rule], other) == RANK["allow"]:
        assert (other.tool, other.path, other.target) == (one.tool, one.path, one.target)
        assert LEVELS.index(other.sandbox) >= LEVELS.index(one.sandbox)
        assert (other.command is None) == (one.command is None)


@given(st.lists(st.sampled_from(["session", "until", "always", None]), max_size=6), st.integers(0, 6))
def test_a_fork_has_no_grant_that_its_parent_had_not(scopes: list[str | None], at: int) -> None:
    def folded(count: int) -> SessionFold:
        fold = SessionFold()
        for seq, scope in enumerate(scopes[:count], 1):
            decision = "deny" if seq % 3 == 0 else "approve"
            known = "session" if scope == "session" else "until" if scope == "until" else None
            body = ApprovalReceived(
                approval_id=f"appr_{seq}", decision=decision, by="cli", digest=f"{seq}", scope=known
            )
            fold.apply(event_of(body, session_id="sess_1", seq=seq, ts=seq), body)
        return fold

    assert folded(at).granted <= folded(len(scopes)).granted
    granted = {str(seq) for seq, scope in enumerate(scopes, 1) if scope == "session" and seq % 3}
    assert folded(len(scopes)).granted == granted


def test_a_plan_is_made_with_tools_that_only_look() -> None:
    every = toolbox(ToolSettings(), ToolDeps())
    looking = every.for_planning()
    above = {spec.name for spec in looking.specs() if looking.get(spec.name).tier != "read-only"}
    assert above <= {"delegate"}  # whose sub-agents plan as well
    assert {spec.name for spec in looking.specs()} < {spec.name for spec in every.specs()}
