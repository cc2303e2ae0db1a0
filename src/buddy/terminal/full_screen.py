"""Which commands of a person need the terminal itself: editors, pagers, monitors, password prompts.

Invariants: this only decides where a command runs, never what it may do. A program that is not known runs without a
terminal, its output line by line.
"""

import re
import shlex

_EDITORS = ("vi", "vim", "nvim", "view", "vimdiff", "nano", "pico", "emacs", "micro", "hx", "joe", "ed", "visudo")
_PAGERS = ("less", "more", "most", "man", "info")
_MONITORS = ("top", "htop", "btop", "atop", "iotop", "nvtop", "watch", "k9s", "ncdu")
_BROWSERS = ("mc", "ranger", "nnn", "lf", "tig", "lazygit", "gitui", "fzf", "dialog", "whiptail", "tmux", "screen")
_SHELLS = ("ssh", "mosh", "telnet", "sftp", "ftp", "psql", "mysql", "sqlite3", "redis-cli", "gdb", "lldb")
_PASSWORDS = ("su", "sudo", "doas", "passwd")
PROGRAMS = frozenset((*_EDITORS, *_PAGERS, *_MONITORS, *_BROWSERS, *_SHELLS, *_PASSWORDS))
_PREFIXES = frozenset(("env", "command", "exec", "time", "nice", "nohup"))
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_BETWEEN = re.compile(r"\|\||&&|[|;&\n]")
_HAS_MESSAGE = re.compile(r"-[a-z]*[mFC]|--(message|file|reuse-message|no-edit|fixup)\b")
_PIECEMEAL = ("-i", "--interactive", "-p", "--patch")


def needs_terminal(command: str) -> bool:
    """Whether a part of a command line is a program that takes the terminal."""
    return any(_takes_terminal(part) for part in _BETWEEN.split(command))


def _takes_terminal(part: str) -> bool:
    try:
        words = shlex.split(part)
    except ValueError:
        return False
    while words and (_ASSIGNMENT.match(words[0]) or words[0] in _PREFIXES):
        words = words[1:]
    if not words:
        return False
    name = words[0].rpartition("/")[2]
    return name in PROGRAMS or (name == "git" and _opens_editor(words[1:]))


def _opens_editor(words: list[str]) -> bool:
    """Whether this git opens an editor, or asks about each change."""
    if "commit" in words:
        return not any(map(_HAS_MESSAGE.match, words))
    return any(word in ("rebase", "add") for word in words) and any(word in _PIECEMEAL for word in words)
