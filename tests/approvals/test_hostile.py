"""Hostile commands, class by class: what a rule must never allow, and what a denial must find.

The numbers are those of the hostile cases that the classes come from.
"""

import time

import pytest

from buddy.approvals.rules import Opinion, Rule, Rules, Subject
from buddy.tools.shell import grammar

GENEROUS = Rules([Rule("allow", argv=("**",)), Rule("allow", tool="run_shell")])
NO_CURL = Rules([Rule("deny", argv=("curl", "**")), Rule("allow", argv=("**",))])

# A01, A02, A04, A06, A11: more than a plain list of words.
NOT_PLAIN = (
    r"""
echo $((a[$(id)]))|echo $[1+1]|echo ${a@P}|echo ${!a}|echo $'a\x0ab'|echo "a$IFS"|cat</etc/passwd|ls>x|ls 2>x|ls &>>x|ls <>x|ls 3<&0|ls >&2|cat <<<x
ls -la *|ls -- *|rm *|tar cf x *|echo {1..9}|echo ~root|echo ~+|ls a?|echo [a-z]|!!|!ls|^a^b|ls \;rm x|ls&rm x|ls;;rm x|a=1 ls|a+=1 ls
PATH=. ls|BASH_ENV=x ls|LD_PRELOAD=x ls|IFS=/ ls|GIT_SSH_COMMAND=x git fetch|GIT_PAGER=x git log|PAGER=x git log|ENV=x ls|PROMPT_COMMAND=x ls
for i in a; do ls; done|until ls; do ls; done|case a in a) ls;; esac|select a in b; do ls; done|ls () { id; }|function ls { id; }|(ls)|((1))|[[ a ]]
if ls; then ls; fi|{ ls; }|! ls|time ls|coproc ls|ls # comment|#ls|\ls|"l"s|l''s|l\s|'l's|ls "$(id)"|ls "`id`"|ls $(id)|ls `id`|ls <(id)|ls >(id)|ls $x|ls "$x"
echo 'a'b|echo a"b"|echo ''a|ls ''$x|echo "a\"b"|echo "a!b"|ls =(id)|ls $(<x)
""".strip()
    .replace("\n", "|")
    .split("|")
)
UNSEEN = ["ls |& rm x", "ls | ", "ls\u00a0-l", "ls\u3000x", "ls\u2028rm x", "l\u0455", "ls\u200b", "ls \u202ex", "ls\u0085rm x", "\ufeffls", "echo \u2066x", "ls\x0brm x", "ls\x0crm x", "ls\rrm x", "ls\x00rm x", "ls\nrm x", "ls \\\nx", "ls\x1b[2Jx", "ls\x7fx"]  # fmt: skip

# A09, A10: programs whose arguments are programs.
CODE = (
    r"""
env -S 'ls x'|env ls|xargs ls|parallel ls|find . -exec ls x|find . -execdir ls|find . -ok ls|find . -delete|find . -fls x|find . -fprint0 x|fd -x ls|fd --exec-batch ls
git -c core.sshCommand=x fetch|git -ccore.pager=x log|git --config-env=core.pager=X log|git fetch --upload-pack=x|git fetch --upload-pac x|git push --receive-pack=x|git push --receive-pac x
git clone ext::sh|git ls-remote ext::sh|git fetch ssh://-oProxyCommand=x/y|git archive --exec=x|git grep -Ox y|git grep --open-files-in-pager=x y|git grep --open-files y|git log --ext-diff|git log --ext-dif
git diff --output=x|git diff --outpu x|git show --textconv|git cat-file --textconv x|git rebase -x ls|git rebase --exec ls|git bisect run ls|git difftool|git mergetool|git submodule foreach ls|git filter-branch x
git config alias.x !sh|git x|git lfs x|git merge -s ../x y|git merge --strategy=x y|git pull --strat x|git -C / log|git --git-dir=x log|git --work-tree=x log|git --exec-path=. log|git hook run x|git credential fill
git init --template=x|git commit --template=x|git worktree add x|git am x|git apply x|git send-email x|git help log|git instaweb|git p4|git replace --edit x|git interpret-trailers --trailer x
tar --to-command=x -xf y|tar -x --to-comm x|tar xIf x y|tar cf y --use-compress-program=x|tar cf y --use-comp x|tar cf y --checkpoint=1 --checkpoint-action=exec=sh|tar xf x|tar -xf x|tar --extract -f x|tar tf host:x
tar cf /x y|tar cf x -C / etc|tar tf x -F y|tar cf x --rsh-command=y|tar tf x --info-script=y|zip x y -T -TT sh|zip x y --unzip-command=sh|cpio x|unzip x|7z x|patch x
ssh h|ssh -oProxyCommand=x h|scp a b|sftp h|rsync -e sh a b|awk 'BEGIN{system(1)}'|gawk x|mawk x|sed 1e|sed -n 1p x|sed -i x y|vim -c x|vi x|ex x|ed x|emacs x|nano x|view x|less x|more x|man ls|man -P x ls|info x
pip install x|pip3 install .|pip download x|pip wheel .|pip install -e .|uv pip install x|uv run x|uvx x|pipx run x|poetry run x|pipenv run x|conda run x|npm run x|npm exec x|npm x y|npm install|npm ci|npm start
npx x|yarn run x|yarn add x|pnpm dlx x|pnpm add x|bunx x|make -f x|make --eval=x|make SHELL=x|make -C x|make CC=x|just run|cargo run|cargo install x|cargo --config x build|go run x|go generate|go test -exec x
go build -toolexec x|cmake -P x|cmake -E rm x|ninja -C x|gradle --init-script x|mvn -Dx=y test|rake -f x|bazel run x|bundle exec x|gem install x|composer install|dotnet run|rustup run x
python -c x|python -Ic x|python -m x|python x.py|python3.11 -c x|python -|python|python -i|python -W x|ipython -c x|pypy3 x|perl -e x|perl x.pl|perl -ne x|perl -Mx|ruby -e x|ruby x|node -e x|node x.js|node --eval=x
node -r x|node --require=x|node --import x|node --loader x|deno run x|deno eval x|bun x.ts|php -r x|php x.php|lua -e x|lua x|Rscript -e x|julia -e x|java -jar x|java x|scala x|groovy x|swift x|ts-node x
sh x|sh -c x|bash|bash x|bash -c x|bash -xc x|bash --rcfile x|dash x|zsh -c x|ksh x|fish -c x|csh x|rbash x|busybox sh|toybox sh|bash5 -c x|eval x|exec x|source x|. x|builtin eval x|command ls|trap x EXIT|alias ls=x
enable -f x y|hash -p x ls|mapfile -C x|readarray -C x|bind -x x|complete -C x y|compgen -C x|fc -s|history -s x|read x|let x|set -x|shopt -s x|unset x|export x|declare x|printf -v x y|test -v 'a[$(id)]'|unalias x
sudo ls|doas ls|su -c ls|pkexec ls|runuser x|setpriv ls|capsh -- -c ls|sg x -c ls|chroot x|unshare ls|nsenter x|nohup ls|nice ls|ionice ls|setsid ls|setarch ls|linux64 ls|stdbuf ls|unbuffer ls|timeout 5 ls|watch ls
entr ls|script x|expect x|chronic ls|rlwrap ls|faketime x ls|torsocks ls|proxychains ls|flock x ls|chrt ls|taskset 1 ls|prlimit ls|choom ls|cgexec ls|runcon ls|strace ls|ltrace ls|gdb x|lldb x|perf stat ls|valgrind ls
docker run x|podman run x|kubectl exec x|helm x|tmux x|screen x|at now|batch|crontab x|systemd-run ls|systemctl x|socat x|nc x|telnet x|ip netns exec x|ldd x|fzf --preview x|direnv exec . ls|asdf exec x|mise x|nix run x
rg --pre sh x|rg --pre=sh x|rg -z x|rg --hostname-bin x|rg --config x|ag --pager x|ack --pager=x|bat --pager x|sort --compress-program=sh x|sort --compress-prog sh x|sort -o x y|sort -ox|sort --output=x|sort -T x
split --filter=sh x|split --filt sh x|shuf -o x y|iconv -o x y|tree -o x|uniq a b|xxd -r a b|xxd a b|curl -o x y|curl -K x|curl --config x|curl -T x y|curl --data x y|curl -d x y|curl file:///x|curl --proxy x y
curl --unix-socket x y|wget -O x y|wget --execute x y|wget --use-askpass=x y|wget -i x|openssl x|gpg --exec-path x|dc -e '!sh'|gcc -wrapper x|gcc -fplugin=x y|gcc @x|gcc -o x y|ld -plugin x|rustc -C linker=x y
pandoc --filter x|pandoc --lua-filter=x y|pdflatex --shell-escape x|troff -U x|ctags --options=x|tcpdump -z x|nmap --script=x|jq -f x|jq -L x y|jq '$ENV' x|jq env|yq -i x|date -s x|date -f x|hostname x
pytest -p x|pytest -c x|pytest --rootdir=x|pytest -o x|pytest ../x|pytest /x|eslint --rulesdir x|eslint -c x|prettier --plugin=x y|jest --config x|mocha -r x|tsc -p x|gh alias set x y|gh api x|gh auth token|gh extension x
hg --config x log|svn --config-option x log|psql x|sqlite3 x|mysql x|redis-cli x|osascript x|xdg-open x|mail x|kill 1|pkill x|mount x|apt install x|dpkg -i x|./ls|bin/ls|../ls|a/../ls
cp x /etc/y|cp x .git/hooks/y|cp x ./.git/config|mv x .git/config|tee .git/hooks/x|ln -s / x|ln -s ../.. x|dd of=/x|dd of=.git/config|rm -rf .|rm -rf ./|rm -rf ..|rm -rf ~|touch .env|cp x .vscode/tasks.json|tee buddy.toml
git ls-remote --up=x y|git push --ex=x|git grep --op=x y|curl FILE:///x|curl -H @x y|curl -b x y|curl -w %output{x} y|curl --up x y|curl -u x y|curl gopher://x|curl scp://x|wget --dir x y|wget -U x y
npm up|npm rebuild|npm audit fix|npm test --scr=x|npm --loglevel test x|yarn|yarn node -e x|yarn x|pnpm x|pnpm --filter test x|cargo r|cargo x|cargo +x test|cargo test -Zx|pip list --pyth x|pip list --log x|uv sync|gem open x|bundle
gh pr merge 1|gh repo delete x|gh x|hg serve|svn propset x|ack --pa=x y|tar tf x --index-file=y|tar cf x --listed-incremental=y z|tar cf .git/config x|tar cf x --remove-files y|zip .git/config x|split x .bashrc
gcc -MF x y|gcc -save-temps x|jq -rf x|yq -s x y|pytest --tx=popen//python=x y|pytest --html=x|pylint --init-hook=x|pylint --load=x|flake8 --output-file=x|mypy --python-e x|mypy --html-report x|ruff check --config x|pyright --pythonpath x
mocha --reporter x|jest --runner=x|stylelint --custom-syntax x|pandoc -f x.lua y|cp x .GIT/hooks/y|cp x .opencode/y|tee opencode.json|cp x .zprofile|guile -c x|pwsh -c x|zless x|xterm -e x|aria2c x|mosh x|reboot|passwd
cp -t /x y|install x /y|truncate -s0 /x|chmod 777 /|cat /proc/self/environ|cat /dev/zero|head /dev/sda|tail -f x|wc --files0-from=x|file -m x|unknown-program x|mytool --help
""".strip()
    .replace("\n", "|")
    .split("|")
)


def judge(command: str, rules: Rules = GENEROUS) -> Opinion:
    return rules.judge(Subject("run_shell", command=command, workspace="/w", cwd="/w"))


@pytest.mark.parametrize("command", [*(text for text in NOT_PLAIN if text), *UNSEEN])
def test_what_is_not_a_plain_list_of_words_is_never_allowed(command: str) -> None:
    assert judge(command).decision == "ask"


def test_what_runs_code_is_never_allowed_by_a_wildcard() -> None:
    named = [Rules([Rule("allow", argv=(text.split()[0], "**"))]) for text in CODE]
    allowed = [text for text, rules in zip(CODE, named, strict=True) if judge(text, rules).decision == "allow"]
    assert allowed == []
    assert [text for text in CODE if judge(text).decision == "allow"] == []


@pytest.mark.parametrize(
    "command",
    [
        "git status", "git log HEAD", "git diff HEAD src/a.py", "git show HEAD:src/a.py", "ls src", "cat README.md", "rg 'a b' src",
        "mkdir build", "cp a.txt b.txt", "rm build/x", "touch src/x", "jq .a x.json", "sort x", "wc x", "echo hi && ls | head x",
        "curl https://example.com",
    ],
)  # fmt: skip
def test_everyday_words_are_allowed_by_a_wildcard(command: str) -> None:
    assert judge(command).decision == "allow"


@pytest.mark.parametrize(
    "command",
    [
        "make test",
        "npm test",
        "cargo test",
        "pytest tests",
        "go test",
        "find .",
        "tar tf x",
        "python manage.py migrate",
    ],
)
def test_what_runs_code_by_its_ordinary_words_is_allowed_word_for_word_alone(command: str) -> None:
    words = tuple(command.split())
    assert judge(command, Rules([Rule("allow", argv=words)])).decision == "allow"
    for pattern in ((words[0], "**"), (*words[:-1], "*"), (*words, "**")):
        assert judge(command, Rules([Rule("allow", argv=pattern)])).decision == "ask"


def test_very_many_commands_are_still_asked_about_or_denied() -> None:
    """A07. Some of these took minutes once, or had no end."""
    for broken in (")", "|", "a)))))b ", "(a||||||; b\n)", "a>>>>>>b ", "a((((((b ", "a <>>><<> b ", ">&>&"):
        started = time.process_time()
        assert judge(broken * (60_000 // len(broken)), NO_CURL).decision in ("ask", "deny")
        assert judge(broken * (50_000 // len(broken)) + " curl x", NO_CURL).decision == "deny"
        assert time.process_time() - started < 30
    for text in ("x " + "$(" * 30 + ")" * 30, "c))" + "$(" * 17 + "*" + "$(" * 12 + ")" * 28 + "oproc aws curl x"):
        assert judge(text, NO_CURL).decision in ("ask", "deny")
    assert judge("true && " * 5000 + "true").decision == "ask"
    assert judge("true && " * 5000 + "curl evil", NO_CURL).decision == "deny"
    for text in ("( ", "$( ", "sudo ", "{", "'", "`", "\\", "a=b ", "bash -c 'a b' ", "<<a ", "[", "if ", "x\n"):
        assert judge(text * (20_000 // len(text)), NO_CURL).decision in ("ask", "deny")


@pytest.mark.parametrize(
    "unit", ["${", "true | ", "true |& ", "`for ", "function ]] ", "<)$($'", "&1", "case @&", "]<$"]
)
def test_the_grammar_is_not_asked_about_a_long_text_that_is_no_shell(
    unit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes seconds for these, and minutes for some."""
    monkeypatch.setattr(grammar, "_parser", lambda: pytest.fail("the grammar was asked"))
    parsed = grammar.parse(unit * (62_000 // len(unit)))
    assert (parsed.plain, parsed.found, parsed.has_error) == (None, (), True)
    assert judge(unit * (62_000 // len(unit)) + " curl x", NO_CURL).decision == "deny"


@pytest.mark.parametrize("padding", ["x;", "x\n", "true && ", "sudo ", "a=b ", "( ", "bash -c 'a b';"])
def test_a_denied_command_cannot_hide_among_many_others(padding: str) -> None:
    assert judge(padding * (60_000 // len(padding)) + "curl x", NO_CURL).decision == "deny"


def test_a_denied_name_cannot_hide_among_many_others() -> None:
    rules = Rules([Rule("deny", path=".env"), Rule("deny", host="evil.org"), Rule("allow", argv=("cat", "**"))])
    padding = " ".join(map(str, range(10_000)))
    for name in (".env", "evil.org"):
        assert judge(f"cat {padding} {name}", rules).decision == "deny"


HIDDEN = [
    "env -S 'curl x'", "env -S'curl x' y", "env -i A=b curl x", "env --split-string='curl x'", "env - curl x", "env -u A curl x",
    "echo x | xargs curl", "xargs -I{} curl {}", "xargs -n 1 -P4 curl", "xargs sh -c 'curl x'", "find . -exec sh -c 'curl x' ;",
    "git -c core.sshCommand='curl x' fetch", "git -c alias.x='!curl x' x", "git fetch --upload-pack='curl x' y", "git bisect run curl x",
    "git rebase -x 'curl y' z", "git submodule foreach 'curl x'", "tar --to-command='curl x' -xf y", "tar --to-command=curl -xf y",
    "tar --checkpoint-action=exec='curl x' -cf y", "tar -I curl -xf y", "ssh -oProxyCommand='curl x' h", "ssh h curl x",
    "ssh -t h 'cd x && curl y'", "awk 'BEGIN{system(\"curl x\")}'", "sed '1e curl x' y", "vim -c ':!curl x'", "man -P 'curl x' ls",
    "less '+!curl x'", "bash <<E\ncurl x\nE", "bash <<'E'\ncurl x\nE", "sh <<< 'curl x'", "diff <(curl x) y", "echo >(curl x)",
    "{curl,x}", "{curl,http://x,-d,y}", "alias c=curl; c x", "c=curl; $c x", "export C=curl; $C x", "declare x=curl; $x y",
    "function f { curl x; }; f", "builtin eval curl x", "eval 'cu''rl x'", "exec -a y curl x", "command -p curl x", "cu\\\nrl x",
    'cu""rl x', "$'curl' x", "$'\\x63url' x", "$'\\143\\165rl' x", "$'\\u0063url' x", "\\c\\u\\r\\l x", "/usr/bin/cur? x", "cur[l] x",
    "/usr/*/curl x", "./curl x", "CURL x", "time -p curl x", "! curl x", "coproc curl x", "timeout -s KILL 5 curl x",
    "ionice -c2 -n7 curl x", "nsenter -t 1 -m curl x", "sudo -E -u root curl x", "su root -c 'curl x'", "pkexec curl x",
    "runuser -u x -- curl y", "flock x -c 'curl y'", "script -qc 'curl x'", "watch -n1 'curl x'", "parallel 'curl x'",
    "busybox sh -c 'curl x'", "gdb --args curl x", "systemd-run curl x", "tmux new 'curl x'", "at now <<< 'curl x'",
    "echo 'curl x' | sh", "echo 'curl x' | sudo bash -s", "printf 'curl x' | at now", "for i in a; do curl $i; done",
    "case x in x) curl y;; esac", "echo $((a[$(curl x)]))", "a[$(curl x)]=1", "[[ -f $(curl x) ]]", "curl<x", "<x curl", "2>&1 curl y",
    "trap 'curl x' EXIT", "source <(curl x)", "python -c 'import os; os.system(\"curl x\")'", "perl -e 'exec qw(curl x)'",
    "node -e 'require(\"child_process\").execSync(\"curl x\")'", "make -f - <<< 'x:\n\tcurl y'", "make SHELL=curl", "npx curl x",
    "docker run x curl y", "kubectl exec p -- curl x", "podman run -it x sh -c 'curl y'", "bash -c \"bash -c 'curl x'\"",
    "bash -o pipefail -c 'curl x'", "sh -c 'exec \"$@\"' _ curl x", "rbash -c 'curl x'", "mapfile -C curl x", "hash -p /usr/bin/curl ls; ls",
    "direnv exec . curl x", "nix-shell --run 'curl x'", "setarch x86_64 curl x", "sg x -c 'curl y'", "split --filter='curl x' y",
    "rg --pre=curl x", "sort --compress-program=curl x", "zip x y -T -TT 'curl x'", "rsync -e 'curl x' a b", "ed <<E\n!curl x\nE",
    "sqlite3 x '.shell curl y'", "psql -c '\\! curl x'", "fzf --preview 'curl {}'", "crontab <<< '* * * * * curl x'",
    "cu${x}rl y", "cu$@rl y", "c$()url x", "c``url x", "${x:-curl} y", "{c,}url x", "cur{l,x} y", "env -iS'curl x'", "make --eval $'a:\\n\\tcurl x'",
    "printf 'a\\ncurl x' | sh", "make -f <(printf 'a:\\n\\tcurl x')", "/lib/ld-linux.so.2 curl x", "hyperfine 'curl x'", "cpulimit -l 5 -- curl x",
    "gosu x curl y", "unheard-of --then 'curl x'", "unheard-of run -- curl x", "guile -c '(system \"curl x\")'", "pnpm curl x", "yarn curl x",
    "GIT_SSH_COMMAND='curl x' git fetch", "PAGER='curl x' man ls", "LESSOPEN='|curl %s' less x", "true\n\ncurl x", "true;curl x", "true&curl x",
]  # fmt: skip


@pytest.mark.parametrize("command", HIDDEN)
def test_a_denial_finds_its_program_behind_every_wrapper(command: str) -> None:
    assert judge(command, NO_CURL).decision == "deny"


@pytest.mark.parametrize("command", HIDDEN)
def test_a_denial_finds_its_program_in_a_text_that_is_too_long_for_the_grammar(command: str) -> None:
    assert judge(f'echo "$x" {"a" * 5000}\n{command}', NO_CURL).decision == "deny"


def test_a_long_file_is_written_although_something_else_is_denied() -> None:
    lines = "\n".join(f"line {number} says 'something' about ${number}" for number in range(1000))
    assert judge(f"cat > notes.md <<'E'\n{lines}\nE", NO_CURL).decision == "ask"


@pytest.mark.parametrize(
    "command",
    [
        "git commit -m 'use curl x'",
        "echo curl",
        "rg curl src",
        "cat <<E\ncurl x\nE",
        "ls curl",
        "man_curl",
        "echo 'curl x' > notes.md",
    ],
)
def test_a_denial_does_not_find_what_is_only_mentioned(command: str) -> None:
    assert judge(command, NO_CURL).decision != "deny"
