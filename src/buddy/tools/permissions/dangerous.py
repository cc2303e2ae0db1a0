"""Arguments with which an innocent program runs other programs or writes where nobody looks.

This table only ever takes away: a command it names is asked for although a rule with wildcards would allow it. It is
never used to prove that something is safe.
"""

import re
from collections.abc import Callable

from buddy.scrub.lazy import Lazy
from buddy.tools.permissions.grammar import Words

Test = Callable[[Words], bool]


def runs_code(words: Words) -> str | None:
    """Why this command is code execution whatever its name says; None where the table knows nothing against it."""
    name = words[0].rsplit("/", 1)[-1]
    if "/" in words[0] and not words[0].startswith("/"):
        return f"{words[0]} is a file of the workspace"
    if name in _RUNNERS or _VERSIONED.fullmatch(name):
        return f"{name} runs whatever it is given"
    for pattern, test in _OPTIONS:
        if re.fullmatch(pattern, name):
            bad = next((word for word in words[1:] if test.match(word)), None)
            if bad is not None:
                return f"{name} with {bad} can run or write anything"
    special = _SPECIAL.get(name)
    return special(words) if special else None


# Programs whose job is to run others, or whose arguments are programs themselves.
_RUNNERS = frozenset(
    """
    sh bash dash ash zsh ksh mksh fish csh tcsh busybox toybox env xargs parallel sudo doas su runuser chroot unshare
    nsenter nohup nice ionice setsid stdbuf timeout time command exec eval source . builtin trap watch entr script expect
    tclsh wish awk gawk mawk nawk ed ex vi vim nvim view emacs nano less more man info pager gdb lldb strace ltrace
    perf valgrind ssh scp sftp rsync socat nc ncat netcat telnet screen tmux at batch crontab systemd-run systemctl
    flock chrt taskset numactl proot fakeroot firejail bwrap docker podman nerdctl kubectl osascript open xdg-open
    start-stop-daemon run-parts m4 gnuplot jshell irb pry ghci iex erl sqlite3 mysql psql
    """.split()
)

_VERSIONED = Lazy(r"(?:bash|zsh|ksh|lua|luajit|tclsh)[0-9.-]*")

_INLINE = Lazy(
    r"-[A-Za-z]*[ceEimprR](?:$|[^-].*)|-$|--(?:eval|exec|print|command|require|import|interactive|run)\b.*|-r.*"
)

_OPTIONS: tuple[tuple[str, Lazy], ...] = (
    (r"python[0-9.]*|pypy[0-9.]*", Lazy(r"-[A-Za-z]*[cmi].*|-$|/dev/stdin")),
    (r"perl[0-9.]*|ruby[0-9.]*|raku", Lazy(r"-[A-Za-z0-9]*[eEimMprI].*|-$")),
    (r"node|nodejs|deno|bun|php[0-9.]*|Rscript|osascript|julia|groovy|scala", _INLINE),
    (r"find", Lazy(r"-(?:exec|execdir|ok|okdir|delete|fprint|fprint0|fprintf|fls)\b.*")),
    (r"fd|fdfind", Lazy(r"-[A-Za-z]*[xX].*|--exec.*|--list-details")),
    (r"rg|ripgrep", Lazy(r"--pre\b.*|--pre=.*|--hostname-bin.*|-z|--search-zip|-[a-zA-Z]*z[a-zA-Z]*|--config.*")),
    (r"grep|egrep|fgrep|zgrep", Lazy(r"--devices=.*read")),
    (r"sort", Lazy(r"--compress-pro.*|-o.*|--o.*|-[a-zA-Z]*o.*|-T.*|--temp.*|-S.*")),
    (r"sed|gsed", Lazy(r".*")),
    (r"tar|gtar|bsdtar", Lazy(
        r"--checkpoint-act.*|--to-com.*|-[A-Za-z]*[IF].*|--use-comp.*|--rsh-com.*|--info-s.*|--new-vol.*|--rmt-com.*|--transform.*|-P|--absolute.*"
    )),
    (r"zip", Lazy(r"-[A-Za-z]*T.*|--unzip-com.*|-TT.*")),
    (r"cpio", Lazy(r"--rsh-com.*|--to-stdout")),
    (r"curl", Lazy(
        r"-[A-Za-z]*[oOKTDc].*|--(?:output|remote-name|config|upload|dump-header|cookie-jar|trace|libcurl|netrc-file|proto|engine|unix-socket|data|form|json|hsts|alt-svc|etag-save|stderr).*|-[A-Za-z]*[dF].*"
    )),
    (r"wget", Lazy(r"-[A-Za-z]*[OoiPea].*|--(?:output|input|directory|execute|config|use-askpass|post|body|warc|save).*")),
    (r"git", Lazy(
        r"-c|-c.+|--exec-path.*|--upload-pack.*|--receive-pack.*|--exec=.*|-x|--exec|--config-env.*|-C|--git-dir.*|--work-tree.*"
        r"|--ext-diff|--textconv|-O.*|--open-files.*|--output.*|-o|--template.*|--namespace.*|--super-prefix.*|-u|ext::.*|.*::.*"
    )),
    (r"hg", Lazy(r"--config.*|--cwd.*|-R.*|--debugger.*")),
    (r"svn", Lazy(r"--config-.*|--diff-cmd.*|--diff3-cmd.*|--editor-cmd.*")),
    (r"gcc|g\+\+|cc|c\+\+|clang.*|ld.*", Lazy(r"-wrapper|-B.*|-fplugin.*|-specs.*|@.*|-o.*|-Wl,.*|-x")),
    (r"go", Lazy(r"-exec.*|--exec.*|-toolexec.*|run|generate|get|install|env|tool|vet|-vettool.*|-overlay.*|-o")),
    (r"cargo|npm|npx|pnpm|yarn|bunx|uv|uvx|pip[0-9.]*|pipx|poetry|gem|bundle|composer|mvn|gradle|sbt|mix|rake|just|task|ninja|cmake",
     Lazy(r"run.*|exec.*|x|install.*|i|add|update|publish|config.*|-C.*|--config.*|--manifest-path.*|-E|-P.*|start|create|dlx|ci|link")),
    (r"make|gmake", Lazy(r"-[A-Za-z]*[fCIE].*|--(?:file|makefile|directory|eval|include).*|.*=.*")),
    (r"tee|dd|cp|mv|ln|install|rm|rmdir|shred|truncate|chmod|chown|mkdir|touch|mknod|mkfifo", Lazy(r"/.*|~.*|.*\.\./.*|\.\.|of=/.*|--reference.*|-t.*|--target.*")),
    (r"cat|head|tail|wc|ls|stat|file|od|xxd|hexdump|strings|md5sum|sha\d+sum|diff|cmp|comm|cut|nl|tac|rev|fold|fmt|column|paste|join|uniq|tree|du|realpath|readlink",
     Lazy(r"/proc/.*|/dev/.*|/sys/.*|--files0-from.*|-F|--follow.*|--retry|-f|--magic.*|-m.*|-C$|-r$")),
    (r"xxd", Lazy(r"-[A-Za-z]*r.*|--revert")),
    (r"openssl", Lazy(r".*")),
    (r"jq|yq", Lazy(r"-[A-Za-z]*[iL].*|--in.*|.*\$ENV.*|.*\benv\b.*|.*input_filename.*|-f|--from-file")),
    (r"date|hostname", Lazy(r"-s.*|--set.*|-f|-F|--file.*|[^-+].*")),
    (r"nmap", Lazy(r"--script.*|--interactive|-o.*|-i.*")),
    (r"pytest|py\.test", Lazy(r"-p|-p.+|-c|--rootdir.*|--confcutdir.*|-o|--override.*|--import.*|--pdbcls.*|--basetemp.*|--junit.*|--log-file.*|--cov-config.*")),
)  # fmt: skip

_WRITING_GIT = frozenset(
    """
    config submodule bisect rebase filter-branch filter-repo difftool mergetool daemon send-email instaweb gui web--browse
    credential credential-store credential-cache alias hook worktree clone init am apply archive bundle fast-import
    upload-pack receive-pack shell remote-ext remote-fd maintenance sequence-editor grep--helper help p4 svn cvsserver
    """.split()
)


def _git(words: Words) -> str | None:
    verb = next((word for word in words[1:] if not word.startswith("-")), "")
    return f"git {verb} can run other programs" if verb in _WRITING_GIT else None


_SPECIAL: dict[str, Callable[[Words], str | None]] = {"git": _git}
