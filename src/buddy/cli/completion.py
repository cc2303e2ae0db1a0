"""`buddy completion bash|zsh|fish`: what a shell offers after `buddy`, made from the command line itself.

What always holds: commands and flags are in the script, so completing them asks nothing of a running Buddy; only ids of
sessions are looked up, where one can stand.
"""

import argparse
import asyncio
from collections.abc import Iterator

from msgspec import Struct

MOST_SESSIONS = 50
# What stands in a script for the sessions there are.
SESSIONS = "(sessions)"


class Word(Struct, frozen=True):
    """Something that can be typed, after which words."""

    after: tuple[str, ...]
    text: str
    help: str


def completion(parser: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    if options.shell == "sessions":
        return asyncio.run(_print_sessions(options))
    words = list(words_of(parser))
    print({"bash": _bash, "zsh": _zsh, "fish": _fish}[options.shell](words), end="")
    return 0


async def _print_sessions(options: argparse.Namespace) -> int:
    """Ids and what they began with, the last one used first."""
    from buddy.cli.embedded import connected
    from buddy.client.opening import first_prompt
    from buddy.protocol.requests import ListSessions, ListSessionsReply
    from buddy.terminal.escape import one_line

    async with connected(options, "cli") as client:
        for found in (await client.request(ListSessions(MOST_SESSIONS), ListSessionsReply)).sessions:
            prompt = one_line(await first_prompt(client, found.session_id), 60)
            print(f"{found.session_id}\t{prompt}")
    return 0


def words_of(parser: argparse.ArgumentParser, after: tuple[str, ...] = ()) -> Iterator[Word]:
    """Every command, action and flag, the shown ones."""
    for action in parser._actions:  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - argparse has no other list
        if action.help == argparse.SUPPRESS:
            continue
        if action.dest == "session_id" and not action.option_strings:
            yield Word(after, SESSIONS, "")
        for flag in action.option_strings:
            if flag.startswith("--"):
                yield Word(after, flag, action.help or "")
        shown: list[argparse.Action] = vars(action).get("_choices_actions", [])
        helps = {choice.dest: choice.help or "" for choice in shown}
        for name, inner in _choices(action):
            yield Word(after, name, helps.get(name, ""))
            if inner is not None:
                yield from words_of(inner, (*after, name))


def _choices(action: argparse.Action) -> "list[tuple[str, argparse.ArgumentParser | None]]":
    choices: dict[str, argparse.ArgumentParser] | tuple[str, ...] | None = vars(action)["choices"]
    if action.option_strings or choices is None:
        return []
    if isinstance(choices, dict):
        return list(choices.items())
    shown = action.metavar.split("|") if isinstance(action.metavar, str) else choices
    return [(choice, None) for choice in choices if choice in shown]


def _grouped(words: list[Word]) -> dict[tuple[str, ...], list[Word]]:
    groups: dict[tuple[str, ...], list[Word]] = {}
    for word in words:
        groups.setdefault(word.after, []).append(word)
    return groups


def _bash(words: list[Word]) -> str:
    cases = "\n".join(
        f'    "{" ".join(after)}") offered="{" ".join(_listed(word) for word in group)}" ;;'
        for after, group in _grouped(words).items()
    )
    return _BASH.replace("CASES", cases)


def _listed(word: Word) -> str:
    return "$(buddy completion sessions 2>/dev/null | cut -f 1)" if word.text == SESSIONS else word.text


def _zsh(words: list[Word]) -> str:
    cases = "\n".join(
        f'    "{" ".join(after)}") offered=({" ".join(_described(word) for word in group)}) ;;'
        for after, group in _grouped(words).items()
    )
    return _ZSH.replace("CASES", cases)


def _described(word: Word) -> str:
    if word.text == SESSIONS:
        return '"${(@f)$(buddy completion sessions 2>/dev/null | tr "\\t" ":")}"'
    text = f"{word.text}:{word.help}".replace("'", "'\\''")
    return f"'{text}'"


def _fish(words: list[Word]) -> str:
    lines = ["complete -c buddy -f"]
    for word in words:
        seen = " ".join(f"; and __fish_seen_subcommand_from {name}" for name in word.after)
        when = seen.removeprefix("; and ") or "__fish_use_subcommand"
        if word.text == SESSIONS:
            lines.append(f"complete -c buddy -n '{when}' -a '(buddy completion sessions 2>/dev/null)'")
            continue
        flag = f"-l {word.text[2:]}" if word.text.startswith("--") else f"-a {word.text}"
        told = word.help.replace("\\", "\\\\").replace("'", "\\'")
        lines.append(f"complete -c buddy -n '{when}' {flag} -d '{told}'")
    return "\n".join(lines) + "\n"


_BASH = """\
# eval "$(buddy completion bash)"
_buddy() {
  local word path="" offered="" current="${COMP_WORDS[COMP_CWORD]}"
  for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    [[ $word == -* ]] || path="${path:+$path }$word"
  done
  case "$path" in
CASES
  esac
  COMPREPLY=($(compgen -W "$offered" -- "$current"))
}
complete -o default -F _buddy buddy
"""

_ZSH = """\
#compdef buddy
# eval "$(buddy completion zsh)"
_buddy() {
  local word given=""
  local -a offered
  for word in "${words[@]:1:$((CURRENT-2))}"; do
    [[ $word == -* ]] || given="${given:+$given }$word"
  done
  case "$given" in
CASES
  esac
  if (( ${#offered} )); then _describe 'buddy' offered; else _files; fi
}
compdef _buddy buddy
"""
