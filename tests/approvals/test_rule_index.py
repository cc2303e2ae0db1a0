"""Many rules are looked up in an index; what they say is what trying each of them would say."""

import random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from buddy.approvals import rules as rules_module
from buddy.approvals.rules import FEW, LEVELS, Rule, Rules, Subject
from buddy.tools.shell.mentions import Mentions
from tests.approvals.test_hostile import CODE, NOT_PLAIN, UNSEEN

EVERY_ONE = 1_000_000

tools = st.sampled_from(["run_shell", "write_file", "read_file", "mcp__one__find", "mcp__two__find", "mcp__[x"])
tool_globs = tools | st.sampled_from(["*", "mcp__one__*", "mcp__*", "read_?ile", "mcp__[ot]*", "*_file", "mcp__[[]x"])
names = st.sampled_from(
    ["git", "GIT", "curl", "gcc", "gcc-12", "python3.11", "/usr/bin/curl", "./x", "ls", "Stra\u00dfe"]
)
name_globs = names | st.sampled_from(["*", "**", "g*", "?url", "[cg]*", "${x}", "c[*]l", "stra\u00dfe", "x{a,b}"])
plain = [
    "log",
    "push",
    "LOG",
    "-f",
    "--force",
    "--format=x",
    "a b",
    "caf\u00e9",
    "cafe\u0301",
    "src/a.py",
    "x*",
    "origin",
]
word_globs = st.sampled_from([*plain, "*", "**", "l?g", "[lp]*", "-*", "--format=*", "src/**", "x[*]", "x[*"])
argv = st.tuples(name_globs, st.lists(word_globs, max_size=3)).map(lambda found: (found[0], *found[1]))
PATH_GLOBS = (
    "src/** src/a.py src/*.py **/.env .env secrets/ secrets /etc/** /w/src/a.py /w/ ./src/../.env ../v/x ~/.ssh/** ~x/a a**/b "
    "a/**/b a***/b ?**/b x[a/b]y [s]rc/** src[/]a.py s[*]c/a . ./ .. / // //w/src caf\u00e9/x cafe\u0301/** * ** src/./a.py "
    "a//b /w/../v/x secret*/deep/** src/lib/ https://x.example/* x:/y /w*/src/*"
)
PATHS = (
    "src/a.py src/b.py .env x/.env secrets secrets/a secrets/ /etc/passwd ab a/b xb a/x/b a/xb sr* s*c/a.py s*/deep */a.py "
    "secret*/d* /w/src/a.py /e*c/x s[*]c/a s*c/a caf\u00e9/x cafe\u0301/x xay x/y xby /v/x //w/src .e* ~/.ssh/id . / * [s]rc/a.py "
    "src/ src/lib x:/y"
)
path_globs, paths = st.sampled_from(PATH_GLOBS.split()), st.sampled_from(PATHS.split())
hosts = st.sampled_from(
    ["example.com", "a.example.com", "EXAMPLE.com.", "0x7f.1", "127.0.0.1", ".example.com", "com", "a."]
)
host_globs = hosts | st.sampled_from(
    ["*.example.com", "*.com", "*.EXAMPLE.com.", "*", "*.", "a*.com", "*.*.com", "[a].com"]
)
workspaces = st.sampled_from(["/w", "/w/", "/v", "", "/", "/w/../v", ".", "//w", "/home/[a"])
made = st.builds(
    Rule,
    st.sampled_from(["allow", "ask", "deny"]),
    tool=st.none() | tool_globs,
    argv=st.none() | argv,
    path=st.none() | path_globs,
    host=st.none() | host_globs,
    sandbox=st.none() | st.sampled_from(LEVELS),
    target=st.none() | st.sampled_from(["local", "ssh:*", "ssh:build", "ssh:[[]x"]),
    workspace=st.none() | workspaces,
    network=st.none() | st.booleans(),
    cwd=st.none() | st.sampled_from([".", "src"]),
    definition=st.none() | st.just("one-1"),
)
# Most rules have a key or two, and those match.
few_keys = st.one_of(
    st.builds(Rule, st.sampled_from(["allow", "ask", "deny"]), argv=argv, tool=st.none() | tool_globs),
    st.builds(Rule, st.sampled_from(["allow", "ask", "deny"]), path=path_globs, tool=st.none() | tool_globs),
    st.builds(Rule, st.sampled_from(["allow", "ask", "deny"]), host=host_globs),
    st.builds(
        Rule, st.sampled_from(["allow", "ask", "deny"]), tool=tool_globs, definition=st.none() | st.just("one-1")
    ),
    made,
)
words = (
    names
    | st.sampled_from(plain)
    | paths
    | st.sampled_from(
        ["$x", "c$x", "${x}url", "g*", "*", "cu{r,}l", "`id`", "https://a.example.com/x", "sh", "-c", "env"]
    )
)
commands = st.lists(st.lists(words, min_size=1, max_size=5).map(" ".join), min_size=1, max_size=3).flatmap(
    lambda parts: st.sampled_from([" && ", " | ", "; ", "\n", " $("]).map(lambda joint: joint.join(parts))
)
hostile = st.sampled_from([*filter(None, NOT_PLAIN), *UNSEEN, *CODE])
places = {
    "sandbox": st.sampled_from(LEVELS),
    "target": st.sampled_from(["local", "ssh:build", "ssh:[x"]),
    "workspace": workspaces,
    "network": st.booleans(),
}
calls = (
    st.builds(
        Subject, st.just("run_shell"), command=commands | hostile, cwd=st.sampled_from([".", "/w", "src"]), **places
    )
    | st.builds(Subject, tools, path=paths, **places)
    | st.builds(Subject, tools, host=hosts, **places)
    | st.builds(Subject, tools, definition=st.sampled_from(["", "one-1", "one-2"]), **places)
)


def compare(rules: list[Rule], subject: Subject) -> None:
    indexed, tried = Rules(rules, index_above=0), Rules(rules, index_above=EVERY_ONE)
    assert indexed.judge(subject) == tried.judge(subject)


@settings(max_examples=400)
@given(st.lists(few_keys, min_size=1, max_size=12), calls)
@example([Rule("deny", path="a**/b")], Subject("read_file", path="ab"))
@example([Rule("deny", path="x[a/b]y")], Subject("read_file", path="xay"))
@example([Rule("deny", path="src/lib/**")], Subject("run_shell", command="cat s*/l*", workspace="/w", cwd="/w"))
@example([Rule("deny", path="**/.env")], Subject("run_shell", command="echo [a", workspace="/w/../v"))
@example([Rule("deny", argv=("curl", "**"))], Subject("run_shell", command="c$x y"))
@example([Rule("deny", host="*.example.com")], Subject("fetch_url", host=".example.com"))
def test_an_index_says_what_trying_every_rule_says(rules: list[Rule], subject: Subject) -> None:
    compare(rules, subject)


@given(argv, st.sampled_from(["deny", "ask", "allow"]), st.data())
def test_a_rule_is_found_for_the_words_it_was_made_from(
    pattern: tuple[str, ...], decision: str, data: st.DataObject
) -> None:
    """Random words seldom match, so these are the rule's own."""
    spoken = " ".join(f"'{word}'" for word in pattern if word != "**")
    more = data.draw(st.sampled_from(["", " x", " -f", " | sort"]))
    others = data.draw(st.lists(few_keys, max_size=6))
    rule = Rule("deny" if decision == "deny" else "ask" if decision == "ask" else "allow", argv=pattern)
    compare([*others, rule], Subject("run_shell", command=spoken.upper() + more, workspace="/w", cwd="/w"))
    compare([*others, rule], Subject("run_shell", command=spoken + more, workspace="/w", cwd="/w"))


def test_hostile_commands_are_judged_alike_by_many_rules() -> None:
    draw = random.Random(1)  # noqa: S311 - the same rules each time
    texts = [*filter(None, NOT_PLAIN), *UNSEEN, *CODE]
    rules = [
        Rule(draw.choice(("allow", "ask", "deny")), argv=(*text.split()[:2], draw.choice(("*", "**", "x"))))
        for text in draw.sample(texts, 60)
        if text.split()
    ]
    for text in texts:
        chosen = [rule for rule in rules if draw.random() < 0.3 or rule.decision == "allow"]
        compare(chosen, Subject("run_shell", command=text, workspace="/w", cwd="/w"))


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> list[Rule]:
    """The rules that were looked at."""
    found: list[Rule] = []
    concerns = rules_module._concerns  # pyright: ignore[reportPrivateUsage] - it counts what is tried

    def count(rule: Rule, subject: Subject, named: Mentions) -> bool:
        found.append(rule)
        return concerns(rule, subject, named)

    monkeypatch.setattr(rules_module, "_concerns", count)
    return found


@pytest.mark.parametrize(
    ("subject", "decision"),
    [
        (Subject("run_shell", command="cargo build", workspace="/w"), None),
        (Subject("run_shell", command="git log task-70", workspace="/w"), "allow"),
        (Subject("run_shell", command="docker run image-70 x", workspace="/w"), "deny"),
        (Subject("run_shell", command="cat secrets/70/k* | sort", workspace="/w"), "deny"),
        (Subject("write_file", path="notes/70/a.md", workspace="/w"), "allow"),
        (Subject("read_file", path="secrets/70/key", workspace="/w"), "deny"),
        (Subject("fetch_url", host="www.docs70.example.com", workspace="/w"), "allow"),
        (Subject("mcp__server70__find", workspace="/w"), "allow"),
    ],
)
def test_a_call_looks_at_few_of_many_rules(subject: Subject, decision: str | None, tried: list[Rule]) -> None:
    made_up = [
        rule
        for number in range(200)
        for rule in (
            Rule("allow", tool="run_shell", argv=("git", "log", f"task-{number}")),
            Rule("deny", argv=("docker", "run", f"image-{number}", "**")),
            Rule("allow", tool="write_file", path=f"notes/{number}/*.md", workspace="/w"),
            Rule("deny", path=f"secrets/{number}/**"),
            Rule("allow", tool="fetch_url", host=f"*.docs{number}.example.com"),
            Rule("allow", tool=f"mcp__server{number}__*"),
        )
    ]
    assert len(made_up) > FEW
    assert Rules(made_up).judge(subject).decision == decision
    wild = subject.command is not None and "*" in subject.command
    assert len(tried) <= (200 if wild else 2)
