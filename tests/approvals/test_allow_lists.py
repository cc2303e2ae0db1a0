"""Rules are allow-lists: a wildcard stands for ordinary words, in the directory and with the files of the rule."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from buddy.approvals.rules import Opinion, Rule, Rules, Subject, read_rules, suggest
from buddy.errors import UserError

ROOT = "/w"


def judge(pattern: str, command: str, cwd: str = ROOT) -> Opinion:
    rule = Rule("allow", argv=tuple(pattern.split()))
    return Rules([rule]).judge(Subject("run_shell", command=command, workspace=ROOT, cwd=cwd))


@pytest.mark.parametrize(
    ("pattern", "command"),
    [
        ("git push **", "git push --e=./evil . HEAD:refs/heads/x"), ("git push **", "git push ./evil HEAD:refs/heads/x"),
        ("git push *", "git push evil"), ("git fetch --depth 1 *", "git fetch --depth 1 evil"), ("git pull **", "git pull evil"),
        ("git ls-remote **", "git ls-remote --u=./evil ."), ("git ls-remote **", "git ls-remote ."), ("git * *", "git push evil"),
        ("git log **", "git log --outp=x"), ("git log **", "git log -p"), ("git grep **", "git grep -O./evil x"),
        ("tar **", "tar cf x.tar --use=./evil a"), ("tar **", "tar cf x.tar --checkpoint=1 --checkpoint-=exec=./evil a"),
        ("tar cf **", "tar cf x.tar a"), ("split **", "split --f=./evil big"), ("split * **", "split big --fil=./evil"),
        ("nm **", "nm --pl=./evil.so a.o"), ("zip **", "zip x.zip a --test --unz=./evil"), ("zip **", "zip x.zip a"),
        ("gcc **", "gcc --specs=./evil.specs -c a.c"), ("gcc **", "gcc a.c"), ("gcc-12 **", "gcc-12 -wrapper ./evil -c a.c"),
        ("gcc-12 **", "gcc-12 a.c"), ("x86_64-linux-gnu-gcc **", "x86_64-linux-gnu-gcc a.c"), ("clang++-15 **", "clang++-15 a.cc"),
        ("install **", "install --strip-program=./evil -s a b"), ("install **", "install --strip-p=./evil a b"),
        ("npm **", "npm view --git=./evil x"), ("npm **", "npm view x"), ("go **", "go build --toolexec=./evil"), ("go **", "go build x"),
        ("date **", "date --s=x"), ("sort **", "sort --comp=./evil x"), ("sort **", "sort -S1 --co ./evil x"), ("** x", "make x"),
        ("**", "make x"), ("**", "npm test"), ("* **", "cargo build"), ("mak* **", "make x"), ("**", "mytool x"), ("mytool **", "mytool x"),
        ("./build.sh **", "./build.sh x"), ("/w/bin/ls **", "/w/bin/ls x"), ("bin/* x", "bin/ls x"), ("python3.11 **", "python3.11 x.py"),
        ("python manage.py **", "python manage.py x"), ("sed *", "sed 1e"), ("awk *", "awk 1"), ("env *", "env ls"), ("find *", "find ."),
        ("rg --pre * x", "rg --pre evil x"), ("rg --pre=* x", "rg --pre=evil x"), ("git -C * status", "git -C evil status"),
        ("ls --* x", "ls --color x"), ("ls -* x", "ls -l x"), ("ls --col* x", "ls --color x"), ("ls [-]l", "ls -l"), ("ls ?l", "ls -l"),
        ("echo *", "echo A=b"), ("echo *", "echo core.pager=x"), ("echo **", "echo a @args"), ("echo *", "echo ext::sh"), ("echo *", "echo --"),
        ("echo *", "echo -"), ("git show **", "git show ext::x"), ("git diff --word-diff=* x", "git diff --word-diff=@x x"),
        ("curl https://*.example.com/*", "curl https://evil.org/a.example.com/b"), ("curl https://*.example.com/*", "curl 'https://evil.org?.example.com/b'"),
        ("curl https://*.example.com/*", "curl 'https://evil.org#.example.com/b'"), ("curl https://*.example.com/*", "curl https://a@evil.org:1.example.com/b"),
        ("curl https://**.example.com/**", "curl https://evil.org/a.example.com/b"), ("cat src/*", "cat src/a/b"), ("cat *", "cat a/b"),
        ("cat s?c/x", "cat s/c/x"), ("cat s[!x]c/x", "cat s/c/x"), ("cat src/**", "cat src/../x"), ("wget **", "wget https://x.org/.envrc"),
    ],
)  # fmt: skip
def test_a_wildcard_stands_for_ordinary_words_of_programs_that_take_data(pattern: str, command: str) -> None:
    assert judge(pattern, command).decision in ("ask", None)


@pytest.mark.parametrize(
    ("pattern", "command"),
    [
        ("git log --oneline **", "git log --oneline"), ("git log --oneline **", "git log --oneline HEAD src/a.py"),
        ("git log --format=* **", "git log --format=%H HEAD"), ("git push origin *", "git push origin main"), ("git push **", "git push"),
        ("git commit -m **", "git commit -m 'change a/b'"), ("git diff HEAD -- **", "git diff HEAD -- src/a.py"), ("ls -la **", "ls -la src"),
        ("rg -n * src", "rg -n 'a b' src"), ("cat src/**", "cat src/a/b.py"), ("cat src/*.py", "cat src/a.py"), ("/usr/bin/cat *", "/usr/bin/cat x"),
        ("curl -s https://*.example.com/*", "curl -s https://a.example.com/b"), ("** x", "cat x"), ("* **", "cat x y"), ("ca? [ab]", "cat b"),
        ("gcc-12 -c a.c", "gcc-12 -c a.c"), ("./build.sh", "./build.sh"), ("find . -name [*].py", "find . -name '*.py'"), ("mytool -x", "mytool -x"),
    ],
)  # fmt: skip
def test_what_a_rule_says_is_allowed(pattern: str, command: str) -> None:
    assert judge(pattern, command).decision == "allow"


@given(st.text(min_size=1, max_size=8))
def test_no_word_with_a_dash_is_ever_matched_by_a_wildcard(text: str) -> None:
    command = f"ls '-{text}'"
    assert judge("ls **", command).decision != "allow"
    assert judge("ls *", command).decision != "allow"
    assert judge("** x", command + " x").decision != "allow"


@pytest.mark.parametrize("cwd", ["/w/fixtures/x", "/w/a", "/", "/other", "/w/..", "/w/w"])
@pytest.mark.parametrize("command", ["git status", "./build.sh", "make test", "ls src", "bash build.sh"])
def test_a_rule_holds_in_the_root_of_the_workspace(command: str, cwd: str) -> None:
    assert judge(command, command).decision == "allow"
    assert judge(command, command, "/w/").decision == "allow"
    opinion = judge(command, command, cwd)
    assert opinion.decision == "ask"
    assert "root of the workspace" in opinion.why


def test_a_rule_may_name_another_directory() -> None:
    rules = Rules([Rule("allow", argv=("make", "test"), cwd="sub/")])
    here = Subject("run_shell", command="make test", workspace=ROOT, cwd="/w/sub")
    assert rules.judge(here).decision == "allow"
    for cwd in ("/w", "/w/sub/x", "/w/other", "/sub"):
        assert rules.judge(replace(here, cwd=cwd)).decision == "ask"
    with pytest.raises(UserError, match="cwd has a wildcard"):
        read_rules({"rules": [{"decision": "allow", "argv": ["ls"], "cwd": "*"}]})


@pytest.mark.parametrize("command", ["cd sub && make x", "bash -c 'cd sub; make x'", "pushd sub; make x"])
def test_a_denial_for_a_directory_cannot_be_walked_around(command: str) -> None:
    rules = Rules([Rule("deny", argv=("make", "**"), cwd="sub")])
    assert rules.judge(Subject("run_shell", command=command, workspace=ROOT, cwd=ROOT)).decision == "deny"
    echo = Subject("run_shell", command="echo x", workspace=ROOT, cwd=ROOT)
    assert rules.judge(echo).decision is None


def test_a_denial_without_a_directory_holds_everywhere() -> None:
    rules = Rules([Rule("deny", argv=("make", "**"))])
    assert rules.judge(Subject("run_shell", command="make x", workspace=ROOT, cwd="/w/a")).decision == "deny"


def test_always_binds_the_words_the_directory_and_the_scripts() -> None:
    asked = Subject("run_shell", command="./b.sh -x", workspace=ROOT, cwd="/w/sub", scripts=("aa  sub/b.sh",))
    rule = suggest(asked)
    assert rule is not None
    assert msgspec.convert(msgspec.json.decode(msgspec.json.encode(rule)), Rule) == rule
    assert (rule.cwd, rule.workspace, rule.scripts) == ("sub", ROOT, ("aa  sub/b.sh",))
    rules = Rules([rule])
    assert rules.judge(asked).decision == "allow"
    others = (
        replace(asked, cwd=ROOT),
        replace(asked, workspace="/v", cwd="/v/sub"),
        replace(asked, scripts=("bb  sub/b.sh",)),
        replace(asked, scripts=()),
        replace(asked, scripts=("aa  sub/b.sh", "cc  sub/c.sh")),
        replace(asked, command="./b.sh"),
    )
    assert [rules.judge(other).decision for other in others].count("allow") == 0


def test_a_chain_runs_no_more_files_than_its_rules_were_made_with() -> None:
    bound = Rule("allow", argv=("make", "test"), scripts=("aa  Makefile",))
    rules = Rules([bound, Rule("allow", argv=("echo", "*"))])
    chain = Subject("run_shell", command="echo x && make test", workspace=ROOT, cwd=ROOT, scripts=("aa  Makefile",))
    assert rules.judge(chain).decision == "allow"
    assert rules.judge(replace(chain, scripts=("aa  Makefile", "bb  GNUmakefile"))).decision == "ask"


@pytest.mark.parametrize("command", ["cat a.py", "git status", "ls -l"])
def test_what_only_looks_is_not_bound_to_the_content_of_files(command: str) -> None:
    rule = suggest(Subject("run_shell", command=command, workspace=ROOT, cwd=ROOT, scripts=("aa  a.py",)))
    assert rule is not None
    assert rule.scripts is None


MARKS = [
    "\u034f",
    "\U000e0041",
    "\U000e0001",
    "\ufff9",
    "\u202e",
    "\u200b",
    "\u200d",
    "\ufe0f",
    "\x1b",
    "\u00a0",
    "e\u0301",
]


@pytest.mark.parametrize("mark", MARKS)
def test_what_cannot_be_seen_is_never_approved_by_a_rule(mark: str) -> None:
    assert judge("echo **", f"echo 'a{mark}b'").decision in ("ask", None)
    assert judge(f"echo a{mark}b", f"echo 'a{mark}b'").decision in ("ask", None)
    rules = Rules([Rule("allow", tool="*"), Rule("allow", path="**"), Rule("allow", path=f"a{mark}b")])
    for subject in (
        Subject("write_file", path=f"a{mark}b", workspace=ROOT),
        Subject("fetch_url", host=f"a{mark}b.example", workspace=ROOT),
    ):
        assert rules.judge(subject).decision == "ask"
        assert suggest(subject) is None
    assert suggest(Subject("run_shell", command=f"echo 'a{mark}b'")) is None


@pytest.mark.parametrize(
    ("rule", "name"), [("geheim\u00e9/**", "geheime\u0301/a"), ("geheime\u0301/", "geheim\u00e9/a")]
)
def test_a_denial_of_a_name_holds_for_each_way_to_write_its_characters(rule: str, name: str) -> None:
    rules = Rules([Rule("deny", path=rule), Rule("allow", argv=("**",))])
    assert rules.judge(Subject("write_file", path=name, workspace=ROOT)).decision == "deny"
    assert rules.judge(Subject("run_shell", command=f"cat '{name}'", workspace=ROOT, cwd=ROOT)).decision == "deny"
    words = Rules([Rule("deny", argv=("cat", "geheim\u00e9"))])
    assert words.judge(Subject("run_shell", command="cat 'geheime\u0301'", workspace=ROOT, cwd=ROOT)).decision == "deny"


@pytest.mark.parametrize(
    ("pattern", "command"),
    [
        ("git push --force **", "git push --forc x"), ("git push --force **", "git push --f x"), ("git push --force **", "git push -f x"),
        ("git push --force **", "git push -qf x"), ("tar --use-compress-program=* **", "tar --use=x y"), ("go build -toolexec **", "go build -toolexec=x"),
        ("go build --toolexec **", "go build -toolexec x"), ("gcc **", "gcc-12 x"), ("gcc **", "x86_64-linux-gnu-gcc-12 x"), ("python **", "python3.11 x"),
        ("curl https://evil.org/*", "curl https://evil.org/a/b"), ("cat *", "cat a/b"), ("cat src/*", "cat src/a/b"),
    ],
)  # fmt: skip
def test_a_denial_holds_for_other_spellings(pattern: str, command: str) -> None:
    rules = Rules([Rule("deny", argv=tuple(pattern.split()))])
    assert rules.judge(Subject("run_shell", command=command, workspace=ROOT, cwd=ROOT)).decision == "deny"
