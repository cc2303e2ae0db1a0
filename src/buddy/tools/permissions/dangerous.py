"""Programs and arguments with which a command runs other programs, or writes where nobody looks.

This table only ever takes away: a command it names is asked for although a rule with wildcards would allow it, and is
looked into by rules that deny. It is never used to prove that something is safe.
"""

import re
from collections.abc import Callable
from functools import lru_cache

from buddy.tools.permissions.grammar import Words


def runs_code(words: Words, fixed: int = 1) -> str | None:
    """Why this command is code execution whatever its name says; None where the table knows nothing against it.

    The first `fixed` words were written out by whoever made the rule: a script that they name is theirs to allow.
    """
    name = words[0].rsplit("/", 1)[-1]
    if "/" in words[0] and not words[0].startswith("/"):
        return f"{words[0]} is a file of the workspace"
    if name in _RUNNERS or re.fullmatch(_VERSIONED, name):
        return f"{name} runs whatever it is given"
    if re.fullmatch(_INTERPRETERS, name):
        return _script(words, fixed)
    bad = next((word for test in _tests(name) for word in words[1:] if test.match(word)), None)
    if bad is not None:
        return f"{name} with {bad} can run or write anything"
    special = _SPECIAL.get(name)
    return special(words) if special else None


def is_known(name: str) -> bool:
    """Whether a wildcard in the place of the program may stand for this one."""
    return name in _PLAIN or name in _SPECIAL or bool(_tests(name))


@lru_cache(1024)
def _tests(name: str) -> tuple[re.Pattern[str], ...]:
    """Compiled when they are met: few commands meet more than one, and there are many."""
    return tuple(re.compile(test) for pattern, test in _OPTIONS if re.fullmatch(pattern, name))


# Programs whose job is to run others, whose arguments are programs themselves, or that change the machine.
_RUNNERS = frozenset(
    """
    sh bash dash ash zsh ksh mksh fish csh tcsh rbash busybox toybox env xargs parallel sudo doas su sg newgrp login
    pkexec runuser setpriv capsh chroot unshare nsenter nohup nice ionice setsid setarch linux32 linux64 i386 x86_64
    arch stdbuf unbuffer timeout time command exec eval source . builtin coproc trap alias unalias enable hash bind
    complete compgen compopt fc history mapfile readarray read let declare typeset local readonly export set shopt
    unset getopts watch watchexec entr script expect chronic ifne zrun mispipe rlwrap faketime torsocks tsocks
    proxychains proxychains4 catchsegv cgexec choom prlimit runcon caffeinate sandbox-exec fzf vipe
    tclsh wish awk gawk mawk nawk ed ex vi vim nvim view emacs nano less more man info pager gdb lldb strace ltrace
    dtruss bpftrace perf valgrind ssh scp sftp rsync socat nc ncat netcat telnet ftp tftp screen tmux byobu at batch
    crontab systemd-run systemctl launchctl service flock chrt taskset numactl proot fakeroot firejail bwrap docker
    podman nerdctl kubectl helm vagrant virsh ansible ansible-playbook terraform osascript open xdg-open dbus-send gdbus
    start-stop-daemon run-parts m4 dc gnuplot jshell irb pry ghci iex erl sqlite3 mysql psql mongo redis-cli
    direnv asdf mise rbenv pyenv nvm volta rustup pipenv hatch pdm conda nix nix-shell guix npx bunx uvx pipx xcrun
    dotnet kill pkill killall mount umount mkfs dpkg apt apt-get rpm yum dnf brew snap mail sendmail mutt patch cpio 7z
    tex latex pdflatex xelatex lualatex dvips groff troff openssl gpg gpg2 sed gsed iptables ip ldd
    """.split()
)

_VERSIONED = r"(?:bash|zsh|ksh|tclsh|qemu-[a-z0-9_-]*|mkfs\.[a-z0-9]+)[0-9.-]*"

_INTERPRETERS = (
    r"(?:i?python|pypy|perl|ruby|raku|node|nodejs|deno|bun|php|lua|luajit|Rscript|julia|groovy|scala|kotlin|java|swift"
    r"|octave|elixir|ocaml|jupyter|ts-node|tsx)[0-9.]*"
)
_ASKS_ONLY = r"--version|-V|--help|-v"

# Long options may be cut short, so each is matched from where it is its own.
_OPTIONS: tuple[tuple[str, str], ...] = (
    (r"find", r"-(?:exec|execdir|ok|okdir|delete|fprint|fprint0|fprintf|fls)\b.*"),
    (r"fd|fdfind", r"-[A-Za-z]*[xX].*|--exec.*|--list-details"),
    (r"rg|ripgrep", r"--pre\b.*|--pre=.*|--hostname-bin.*|-z|--search-zip|-[a-zA-Z]*z[a-zA-Z]*|--config.*"),
    (r"ag|ack|bat|batcat|delta", r"--pag.*|--files-from.*|--ackrc.*|--env.*|-x|--config.*|--map.*"),
    (r"grep|egrep|fgrep|zgrep", r"--devices=.*read"),
    (r"sort", r"--co.*|-[a-zA-Z]*[oT].*|--o.*|--te.*|-S.*|--files0.*"),
    (r"split|csplit", r"--fi.*|/.*|.*\.\./.*|-f.*|--prefix.*"),
    (r"shuf|iconv|tree|column|pr|indent|fmt", r"-[a-zA-Z]*o.*|--o.*|--fromfile.*"),
    (r"tar|gtar|bsdtar", (
        r"--checkpoint-a.*|--to-c.*|--to-s.*|-[A-Za-z]*[IFCxP].*|--use-c.*|--rsh.*|--info-s.*|--new-v.*|--rmt.*|--trans.*|--xf.*"
        r"|--abs.*|--ext.*|--get|--dir.*|--one-top.*|.*:.*|/.*|.*\.\./.*|--files-from.*|-T.*"
    )),
    (r"zip", r"-[A-Za-z]*T.*|--unzip-com.*|-TT.*|/.*|.*\.\./.*"),
    (r"unzip|unrar|gunzip|bunzip2|unxz|ar", r".*"),
    (r"curl", (
        r"-[A-Za-z]*[oOKTDcxE].*|--(?:out|remote-n|config|upload|dump-h|cookie-j|trace|libcurl|netrc|proto|engine|unix-s|abstract|data|form|json|hsts|alt-svc|etag|stderr|proxy|preproxy|resolve|connect-to|cert|key|interface|url-query).*|-[A-Za-z]*[dF].*|file:.*"
    )),
    (r"wget", r"-[A-Za-z]*[OoiPea].*|--(?:output|input|directory|execute|config|use-a|post|body|warc|save|header|method|rejected).*"),
    (r"git", (
        r"-c|-c.+|-C|-C.+|--exe.*|--upl.*|--rece.*|-x|--config.*|--git-d.*|--work-t.*|--ext(?:-.*)?$|--textc.*|-O.*|--open.*|--out.*|-o"
        r"|--templ.*|--names.*|--super.*|-u|.*::.*|.*://-.*|--trailer.*|--edit.*|--attr.*|--filters|--index-filter.*|--bundle-uri.*"
    )),
    (r"hg", r"--config.*|--cwd.*|-R.*|--debugger.*|--rsh.*|-e.*|--ssh.*|--remotecmd.*"),
    (r"svn", r"--config-.*|--diff-cmd.*|--diff3-cmd.*|--editor-cmd.*"),
    (r"gh", r"alias|extension|ext|auth|api|config|secret|ssh-key|gpg-key|codespace|cs|variable"),
    (r"gcc|g\+\+|cc|c\+\+|clang.*|ld.*|rustc|ghc|javac|as|nm|objdump", (
        r"-wrapper.*|-B.*|-fplugin.*|-specs.*|@.*|-o.*|-Wl,.*|-x|--?plugin.*|-C.*|-load.*|-Xclang|-pgm.*|-processor.*|-J.*|--out.*|/.*"
    )),
    (r"go", r"-exec.*|--exec.*|-toolexec.*|run|generate|get|install|env|tool|vet|-vettool.*|-overlay.*|-o|-C|work|mod"),
    (r"cargo|npm|pnpm|yarn|uv|pip[0-9.]*|poetry|gem|bundle|composer|mvn|gradle|sbt|mix|rake|just|task|ninja|cmake|bazel|meson|tox|nox|invoke|fab|ant",
     (
        r"run.*|exec.*|x|install.*|i|add|update|publish|config.*|-C.*|--config.*|--manifest-path.*|-E|-P.*|-D.*|start|create|dlx|ci|link|download|wheel"
        r"|--prefix.*|--script-shell.*|-f.*|--file.*|--init-script.*|-I.*|-c|--node-options.*|set|edit|login|token|pack|version|explore|init|eval.*"
     )),
    (r"make|gmake", r"-[A-Za-z]*[fCIE].*|--(?:file|makefile|directory|eval|include).*|.*=.*"),
    (r"eslint|prettier|jest|vitest|mocha|webpack|babel|tsc|stylelint|rollup|vite", (
        r"--rulesdir.*|-c|-c.+|--config.*|--plugin.*|-r|--require.*|--resolve-plugins.*|--parser.*|-p|--project.*|--loader.*|--format.*|-f|--out.*|-o|--globalSetup.*|--import.*"
    )),
    (r"pandoc", r"-[A-Za-z]*[FLotd].*|--(?:filter|lua|pdf|out|template|data|defaults|extract|to|write|log).*"),
    (r"ctags|cscope|global", r"--opt.*|-[A-Za-z]*[of].*|--output.*|--_.*|-P.*"),
    (r"tcpdump|tshark|nmap", r"-[A-Za-z]*[zwo].*|--script.*|--interactive|-i.*|-X.*|--postrotate.*"),
    (r"tee|dd|cp|mv|ln|install|rm|rmdir|shred|truncate|chmod|chown|mkdir|touch|mknod|mkfifo|sponge|gzip|bzip2|xz|zstd", (
        r"/.*|~.*|.*\.\./.*|\.\.?/?$|of=/.*|of=.*\.\./.*|--reference.*|-[A-Za-z]*t.*|--target.*|-[A-Za-z]*S.*"
        r"|(?:.*[/=])?\.(?:git|husky|vscode|ssh|env|envrc|bashrc|profile|bash_profile|zshrc|zshenv|mcp\.json)(?:/.*)?$|(?:.*[/=])?(?:buddy|agent)\.toml$"
    )),
    (r"cat|head|tail|wc|ls|stat|file|od|xxd|hexdump|strings|md5sum|sha\d+sum|diff|cmp|comm|cut|nl|tac|rev|fold|paste|join|uniq|du|realpath|readlink",
     r"/proc/.*|/dev/.*|/sys/.*|--files0-from.*|-F|--follow.*|--retry|-f|--magic.*|-m.*|-C$|-r$|--revert"),
    (r"jq|yq", r"-[A-Za-z]*[iL].*|--in.*|.*\$ENV.*|.*\benv\b.*|.*input_filename.*|-f|--from-file|.*\bload.*|.*\beval\b.*"),
    (r"date|hostname", r"-s.*|--set.*|-f|-F|--file.*|[^-+].*"),
    (r"pytest|py\.test", (
        r"-p|-p.+|-c|--config.*|--rootdir.*|--confcutdir.*|-o|--override.*|--import.*|--pdbcls.*|--basetemp.*|--junit.*|--log-file.*|--cov-config.*|/.*|.*\.\./.*"
    )),
    (r"printf|test|wait|echo|true|false|pwd|type|cd", r"-v|-R|-p|.*\$\(.*|.*`.*"),
)  # fmt: skip

_PLAIN = frozenset(
    """
    : sleep seq basename dirname whoami id uname uptime nproc tty groups df free ps which printenv expr factor cal yes
    base64 base32 cksum b2sum tr numfmt tsort look locate readelf sync mktemp ping dig host nslookup who users logname
    black ruff mypy pyright flake8 isort pylint shellcheck hadolint yamllint markdownlint
    """.split()
)

_GIT = frozenset(
    """
    add annotate blame branch cat-file check-attr check-ignore checkout cherry cherry-pick commit count-objects describe
    diff diff-files diff-index diff-tree fetch for-each-ref fsck gc grep hash-object log ls-files ls-remote ls-tree
    merge merge-base mv name-rev pull push range-diff reflog remote reset restore rev-list rev-parse revert rm shortlog
    show show-branch show-ref stash status switch symbolic-ref tag version whatchanged clean
    """.split()
)
_MERGING = frozenset({"merge", "pull", "cherry-pick", "revert"})


def _script(words: Words, fixed: int) -> str | None:
    rest = words[1:]
    if rest and all(re.fullmatch(_ASKS_ONLY, word) for word in rest):
        return None
    if fixed > 1 and rest and not rest[0].startswith("-"):
        return None
    return f"{words[0]} runs whatever it is given"


def _git(words: Words) -> str | None:
    """Only verbs that are known: any other may be an alias, or a program called git-NAME."""
    verb = next((word for word in words[1:] if not word.startswith("-")), "")
    if verb and verb not in _GIT:
        return f"git {verb} can run other programs"
    strategy = next((word for word in words if re.match(r"-s|--st", word)), None) if verb in _MERGING else None
    return f"git {verb} with {strategy} can run other programs" if strategy else None


def _tar(words: Words) -> str | None:
    """The first word may be a bundle of options without its dash."""
    bundle = next(iter(words[1:2]), "")
    if not bundle.startswith("-") and re.search(r"[IFCxP]", bundle):
        return f"tar with {bundle} can run or write anything"
    return None


def _copying(words: Words) -> str | None:
    """The second file that is named is written to."""
    files = [word for word in words[1:] if not re.match(r"-.|\+", word)]
    return f"{words[0]} with {files[1]} writes a file" if len(files) > 1 else None


_SPECIAL: dict[str, Callable[[Words], str | None]] = {
    "git": _git,
    **dict.fromkeys(("tar", "gtar", "bsdtar"), _tar),
    **dict.fromkeys(("uniq", "xxd"), _copying),
}
