"""Programs and arguments with which a command runs other programs, or writes where nobody looks.

This table only ever takes away: a command it names is asked for although a rule with wildcards would allow it, and is
looked into by rules that deny. It is never used to prove that something is safe.
"""

import re
from collections.abc import Callable
from functools import lru_cache

from buddy.targets.protected_names import FILES_ALONE, PROTECTED
from buddy.tools.shell.grammar import Words
from buddy.tools.shell.programs import names_of


def runs_code(words: Words, fixed: int = 1) -> str | None:
    """Why this command is code execution whatever its name says; None where the table knows nothing against it.

    The first `fixed` words were written out by the rule's author: a script that they name is theirs to allow.
    """
    name = words[0].rsplit("/", 1)[-1]
    names = names_of(words[0])
    if "/" in words[0] and not words[0].startswith("/"):
        return f"{words[0]} is a file of the workspace"
    if any(one in _RUNNERS or re.fullmatch(_VERSIONED, one) for one in names):
        return f"{name} runs whatever it is given"
    if any(re.fullmatch(_INTERPRETERS, one) for one in names):
        return _script(words, fixed)
    bad = next((word for one in names for test in _tests(one) for word in words[1:] if test.match(word)), None)
    if bad is not None:
        return f"{name} with {bad} can run or write anything"
    special = _SPECIAL.get(name)
    return special(words) if special else None


def wildcard_runs_code(words: Words, fixed: int) -> str | None:
    """The same for words of which all but the first `fixed` were matched by wildcards."""
    name = words[0].rsplit("/", 1)[-1]
    if cut := _cut_short(name, words):
        return f"{name} takes {cut} for an option with which it can run or write anything"
    return runs_code(words, fixed) or (_remote(words, fixed) if name == "git" else None)


def _cut_short(name: str, words: Words) -> str | None:
    """A word that a program may take for one of its dangerous options, cut short."""
    dangerous = _LONG.get(name, "").split()
    cut = (word for word in words[1:] if word.startswith("--") and word != "--")
    return next((word for word in cut if any(long.startswith(word.partition("=")[0]) for long in dangerous)), None)


def may_run_others(words: Words) -> bool:
    """Whether a command may run what it is given: it is known for that, or not known at all."""
    name = words[0].rsplit("/", 1)[-1]
    if not is_known(name):
        return True
    return not re.fullmatch(_LOOKING, name) and runs_code(words) is not None


def is_known(name: str) -> bool:
    """Whether anything is known about this program."""
    return name in _PLAIN or name in _SPECIAL or bool(_tests(name))


@lru_cache(1024)
def _tests(name: str) -> tuple[re.Pattern[str], ...]:
    """Compiled when they are met: few commands meet more than one, and there are many."""
    return tuple(re.compile(test) for pattern, test in _OPTIONS if re.fullmatch(pattern, name))


# Programs whose job is to run others, whose arguments are programs themselves, or that change the machine.
_RUNNERS = frozenset(
    """
    sh bash dash ash zsh ksh mksh fish csh tcsh rbash rc yash posh pwsh powershell nu elvish xonsh osh sash busybox toybox env xargs parallel sudo doas su sg newgrp login
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
    tex latex pdflatex xelatex lualatex dvips groff troff openssl gpg gpg2 sed gsed iptables nft ip ldd
    zless zmore bzless bzmore xzless xzmore lzless lzmore zstdless most lesspipe pg w3m rvim rview rvi vimdiff nvimdiff
    vipw vigr visudo joe pico ncdu mosh rlogin rsh rexec ssh-agent sshpass sshfs xterm dialog run-mailcap enscript
    aa-exec ssh-copy-id openvt cpulimit eatmydata dbus-run-session xvfb-run hyperfine logsave heaptrack rr tini gosu
    logrotate certbot aria2c exiftool genisoimage latexmk luatex pax nroff zsoelim tic update-alternatives ksu
    ld-linux-x86-64.so.2 aws gcloud az puppet knife facter cpan easy_install corepack
    reboot shutdown halt poweroff init telinit passwd chsh chfn useradd usermod userdel groupadd groupmod sysctl
    modprobe insmod rmmod chattr setfacl setcap ldconfig loginctl hostnamectl timedatectl machinectl busctl
    """.split()
)

_VERSIONED = r"(?:bash|zsh|ksh|tclsh|qemu-[a-z0-9_-]*|mkfs\.[a-z0-9]+)[0-9.-]*"

_INTERPRETERS = (
    r"(?:i?python|pypy|perl|ruby|raku|node|nodejs|deno|bun|php|lua|luajit|Rscript|julia|groovy|scala|kotlin|java|swift"
    r"|octave|elixir|ocaml|jupyter|ts-node|tsx|guile|racket|sbcl|clisp|clojure|clj|bb|R|crystal|nim|zig|dart|qjs|pdb)[0-9.]*"
)
_ASKS_ONLY = r"--version|-V|--help|-v"

# Programs that never run what they are given; some of their options are asked for all the same.
_LOOKING = (
    r"cat|head|tail|wc|ls|stat|file|od|xxd|hexdump|strings|md5sum|sha\d+sum|diff|cmp|comm|cut|nl|tac|rev|fold|paste|join|uniq|du"
    r"|realpath|readlink"
)

# Files that make programs run, wherever they are.
_GUARDED = (
    r"(?i:(?:.*[/=])?(?:\.(?:bash\w*|zsh\w*|github|config|local)|"
    + "|".join(re.escape(name) for name in PROTECTED)
    + r")(?:/.*)?$|(?:.*[/=])?(?:"
    + "|".join(re.escape(name) for name in FILES_ALONE)
    + r")$)"
)

# Long options may be cut short, so each is matched from where it is its own.
_OPTIONS: tuple[tuple[str, str], ...] = (
    (r"find", r"-(?:exec|execdir|ok|okdir|delete|fprint|fprint0|fprintf|fls)\b.*"),
    (r"fd|fdfind", r"-[A-Za-z]*[xX].*|--exec.*|--list-details"),
    (r"rg|ripgrep", r"--pre\b.*|--pre=.*|--hostname-bin.*|-z|--search-zip|-[a-zA-Z]*z[a-zA-Z]*|--config.*"),
    (r"ag|ack|bat|batcat|delta", r"--pa.*|--ou.*|--files-from.*|--ackrc.*|--env.*|-x|--config.*|--map.*"),
    (r"grep|egrep|fgrep|zgrep", r"--devices=.*read"),
    (r"sort", r"--co.*|-[a-zA-Z]*[oT].*|--o.*|--te.*|-S.*|--files0.*"),
    (r"split|csplit", r"--fi.*|/.*|.*\.\./.*|-f.*|--prefix.*|" + _GUARDED),
    (r"shuf|iconv|tree|column|pr|indent|fmt", r"-[a-zA-Z]*o.*|--o.*|--fromfile.*"),
    (r"tar|gtar|bsdtar", (
        r"--checkpoint-a.*|--to-c.*|--to-s.*|-[A-Za-z]*[IFCxP].*|--use-c.*|--rsh.*|--info-s.*|--new-v.*|--rmt.*|--trans.*|--xf.*"
        r"|--abs.*|--ext.*|--get|--dir.*|--one-top.*|.*:.*|/.*|~.*|.*\.\./.*|--files-from.*|-T.*|--ind.*|--remo.*|--del.*|--vol.*|--listed.*|-[A-Za-z]*g.*|" + _GUARDED
    )),
    (r"zip", r"-[A-Za-z]*[Tm].*|--unzip-com.*|-TT.*|/.*|.*\.\./.*|" + _GUARDED),
    (r"unzip|unrar|gunzip|bunzip2|unxz|ar", r".*"),
    (r"git", (
        r"-c|-c.+|-C|-C.+|--ex(?:e.*|=.*|$)|--up.*|--rece.*|-x|--config.*|--git-d.*|--work-t.*|--ext(?:-.*)?$|--textc.*|-O.*|--op.*|--out.*|-o"
        r"|--templ.*|--names.*|--super.*|-u|.*::.*|.*://-.*|--trailer.*|--edit.*|--attr.*|--filters|--index-filter.*|--bundle-uri.*"
    )),
    (r"wget", _GUARDED),
    (r"hg", r"--config.*|--cwd.*|-R.*|--debugger.*|--rsh.*|-e.*|--ssh.*|--remotecmd.*"),
    (r"svn", r"--config-.*|--diff-cmd.*|--diff3-cmd.*|--editor-cmd.*"),
    (r"gh", r"-w|--web"),
    (r"gcc|g\+\+|cc|c\+\+|clang.*|ld(?:\.\w+)?|rustc|ghc|javac|as|nm|objdump", (
        r"-wrapper.*|-B.*|-fplugin.*|-specs.*|@.*|-o.*|-Wl,.*|-x|--?plugin.*|-C.*|-load.*|-Xclang|-pgm.*|-processor.*|-J.*|--out.*|/.*|-M[DMF].*|-save.*|-dump.*|-fdump.*|-fprofile.*|-aux.*|--config.*"
    )),
    (r"go", r"-exec.*|--exec.*|-toolexec.*|run|generate|get|install|env|tool|vet|-vettool.*|-overlay.*|-o|-C|work|mod"),
    (r"cargo|npm|pnpm|yarn|uv|pip[0-9.]*|poetry|gem|bundle|composer|mvn|gradle|sbt|mix|rake|just|task|ninja|cmake|bazel|meson|tox|nox|invoke|fab|ant",
     (
        r"run.*|exec.*|x|install.*|i|add|update|publish|config.*|-C.*|--config.*|--manifest-path.*|-E|-P.*|-D.*|start|create|dlx|ci|link|download|wheel"
        r"|--pref.*|--scr.*|-f.*|--file.*|--init-script.*|-I.*|-c|--node-o.*|--userc.*|--globalc.*|--py.*|--lo.*|--open|-Z.*|fix|set|edit|login|token|pack|version|explore|init|eval.*"
     )),
    (r"make|gmake", r"-[A-Za-z]*[fCIE].*|--(?:file|makefile|directory|eval|include).*|.*=.*"),
    (r"eslint|prettier|jest|vitest|mocha|webpack|babel|tsc|stylelint|rollup|vite", (
        r"--rulesdir.*|-c|-c.+|--config.*|--plugin.*|-r|--require.*|--resolve-plugins.*|--parser.*|-p|--project.*|--loader.*|--format.*|-f|--out.*|-o|--globalSetup.*|--import.*|--cache-[lf].*|-R|--report.*|-u|--ui.*|--file.*|--runner.*|--test.?[rR]unner.*|--transform.*|--setup.*|--env.*|--coverage.?[dD].*|--preset.*|--custom.*|-d|serve"
    )),
    (r"pandoc", r"-[A-Za-z]*[FLotd].*|--(?:filter|lua|pdf|out|template|data|defaults|extract|to|write|log).*|.*\.lua$"),
    (r"ctags|cscope|global", r"--opt.*|-[A-Za-z]*[of].*|--output.*|--_.*|-P.*"),
    (r"tcpdump|tshark|nmap", r"-[A-Za-z]*[zwo].*|--script.*|--interactive|-i.*|-X.*|--postrotate.*|--data.*|--serv.*|--vers.*db.*|--resume.*"),
    (r"install", r"--str.*"),
    (r"tee|dd|cp|mv|ln|install|rm|rmdir|shred|truncate|chmod|chown|mkdir|touch|mknod|mkfifo|sponge|gzip|bzip2|xz|zstd", (
        r"/.*|~.*|.*\.\./.*|\.\.?/?$|of=/.*|of=.*\.\./.*|--reference.*|-[A-Za-z]*t.*|--target.*|-[A-Za-z]*S.*|" + _GUARDED
    )),
    (_LOOKING,
     r"/proc/.*|/dev/.*|/sys/.*|--files0-from.*|-F|--follow.*|--retry|-f|--magic.*|-m.*|-C$|-r$|--revert"),
    (r"jq|yq", r"-[A-Za-z]*[iLfs].*|--in.*|--split.*|.*\$ENV.*|.*env.*|.*input_filename.*|--from-file|.*\bload.*|.*\beval\b.*"),
    (r"date|hostname", r"-s.*|--set.*|-f|-F|--file.*|[^-+].*"),
    (r"pytest|py\.test", (
        r"-p|-p.+|-c|--config.*|--rootdir.*|--confcutdir.*|-o|--override.*|--import.*|--pdbcls.*|--basetemp.*|--junit.*|--log-file.*|--cov-config.*|/.*|.*\.\./.*"
        r"|--cov-report.*|--tx.*|--px.*|--rsync.*|--html.*|--report-log.*|--debug.*|--pastebin.*|--pyargs"
    )),
    (r"pylint|flake8|mypy|ruff|black|isort|pyright", (
        r"--init.*|--load.*|--rc.*|--conf.*|--append.*|--out.*|-o|-f|--plugin.*|--enable-ext.*|--tee|--python-?[ep].*|.*report.*|--ju.*|--inst.*|--non-int.*"
        r"|--custom.*|--cache-d.*|--shadow.*|--set.*|--sp|-p|--proj.*|--venv.*|--typeshed.*"
    )),
    (r"printf|test|wait|echo|true|false|pwd|type|cd", r"-v|-R|-p|.*\$\(.*|.*`.*"),
)  # fmt: skip

# Options of programs that a wildcard may be used with, in full; a part of one from its start may stand for it.
_WRITING = "--target-directory --suffix --reference"
_LONG = {
    **dict.fromkeys(("cp", "mv", "ln", "chmod", "chown", "touch", "truncate", "gzip", "bzip2", "xz", "zstd"), _WRITING),
    **dict.fromkeys(("wc", "du", "sort"), "--files0-from --output --compress-program --temporary-directory"),
    **dict.fromkeys(("nm", "objdump"), "--plugin"),
    **dict.fromkeys(("shuf", "iconv", "tree", "pr"), "--output --random-source --fromfile"),
    **dict.fromkeys(("bat", "batcat"), "--pager --map-syntax --config-file --diff-so-fancy"),
    **dict.fromkeys(("fd", "fdfind"), "--exec --exec-batch --list-details"),
    **dict.fromkeys(
        ("ruff", "black", "isort", "yamllint"), "--config --config-file --settings-path --output-file --cache-dir"
    ),
    "install": f"--strip-program {_WRITING}",
    "split": "--filter",
    "csplit": "--prefix",
    "date": "--set --file",
    "file": "--magic-file --files-from --compile",
    "git": (
        "--exec --exec-path --upload-pack --receive-pack --config --config-env --git-dir --work-tree --ext-diff --textconv --filters"
        " --open-files-in-pager --output --output-directory --template --namespace --super-prefix --trailer --edit --attr-source"
        " --strategy --bundle-uri --index-filter"
    ),
    "gh": "--web",
    "hostname": "--file",
    "jq": "--from-file",
    "pandoc": "--filter --lua-filter --pdf-engine --output --template --data-dir --defaults --extract-media --to --write --log",
    "rg": "--pre --hostname-bin --search-zip",
    "tail": "--follow --retry",
}

_PLAIN = frozenset(
    """
    : sleep seq basename dirname whoami id uname uptime nproc tty groups df free ps which printenv expr factor cal yes
    base64 base32 cksum b2sum tr numfmt tsort look locate readelf sync mktemp ping dig host nslookup who users logname
    shellcheck hadolint yamllint markdownlint
    """.split()
)

_GIT = frozenset(
    """
    add annotate blame branch cat-file check-attr check-ignore checkout cherry cherry-pick commit count-objects describe
    diff diff-files diff-index diff-tree fetch for-each-ref fsck gc grep hash-object log ls-files ls-remote ls-tree
    merge merge-base mv name-rev pull push range-diff reflog reset restore rev-list rev-parse revert rm shortlog
    show show-branch show-ref stash status switch symbolic-ref tag version whatchanged clean
    """.split()
)
# Programs whose first word is a verb, and those that only look, build or test; any other may be a script, an alias or
# a program of its own.
_VERBS: dict[str, frozenset[str]] = {
    name: frozenset(verbs.split())
    for names, verbs in {
        "npm": "test t ls list ll la view info show why explain outdated audit search root prefix ping doctor fund whoami",
        "yarn pnpm": "test t ls list why outdated audit info licenses",
        "cargo": "build b check c test t bench clippy fmt doc d tree metadata search clean fetch verify-project version",
        "go": "build test fmt list doc version clean",
        "pip pip3": "list show freeze check index inspect debug hash",
        "uv": "tree version",
        "poetry": "show check search about",
        "gem": "list search info outdated which contents",
        "bundle": "list show info outdated check",
        "composer": "show info outdated licenses validate",
        "gh": "pr issue run release repo workflow status search",
        "hg": "log status st diff annotate blame cat files branches tags heads id identify summary parents manifest",
        "svn": "log status st diff info list ls cat blame annotate",
    }.items()
    for name in names.split()
}
_GH = frozenset({"list", "view", "status", "diff", "checks"})

# Options of programs that get things from the net which neither write, nor send, nor say where to.
_FETCHING = {
    "curl": (
        r"-[sSLfIvkigN46]+|--(?:silent|show-error|location|fail|fail-with-body|head|verbose|insecure|include|globoff|compressed|no-buffer"
        r"|ipv4|ipv6|http[\d.]+|tlsv[\d.]+|max-time|connect-timeout|retry|retry-delay|max-redirs|version|help)(?:=.*)?|-m\d*|-V"
    ),
    "wget": r"--(?:spider|version|help|quiet|no-verbose|timeout=\d+|tries=\d+)|-[qV]+|-nv|-T\d+|-t\d+",
}
_REMOTES = frozenset({"push", "fetch", "pull", "ls-remote"})
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


def _remote(words: Words, fixed: int) -> str | None:
    """A repository runs its hooks when something is pushed to it, and any folder may be one."""
    at = next((index for index, word in enumerate(words) if index and not word.startswith("-")), 0)
    if words[at] not in _REMOTES or len(words) <= max(fixed, at + 1):
        return None
    if fixed > at + 1 and not words[at + 1].startswith("-"):
        return None
    return f"the repository must be written directly after git {words[at]}, for example git {words[at]} origin"


def _verb(words: Words) -> str | None:
    """The verb comes first: before it, what looks like one may be the value of an option."""
    name, rest = words[0].rsplit("/", 1)[-1], words[1:]
    if rest and all(re.fullmatch(_ASKS_ONLY, word) for word in rest):
        return None
    verb = " ".join(rest[:1])
    if verb not in _VERBS[name]:
        return f"{name} {verb}".rstrip() + " can run other programs"
    if name == "gh" and verb not in ("status", "search") and not _GH.intersection(rest[1:2]):
        return f"gh {' '.join(rest[:2])} can change things"
    return None


def _fetching(words: Words) -> str | None:
    """An address may only be one of the web: others read files, or speak to whatever listens."""
    name = words[0].rsplit("/", 1)[-1]
    harmless = re.compile(rf"{_FETCHING[name]}|(?i:https?://.*)|\w[\w.-]*(?::\d+)?(?:/.*)?")
    odd = next((word for word in words[1:] if not harmless.fullmatch(word)), None)
    return f"{name} with {odd} can write, send or read anything" if odd is not None else None


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
    **dict.fromkeys(_VERBS, _verb),
    **dict.fromkeys(_FETCHING, _fetching),
    **dict.fromkeys(("tar", "gtar", "bsdtar"), _tar),
    **dict.fromkeys(("uniq", "xxd"), _copying),
}
