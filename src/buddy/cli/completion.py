"""`buddy completion bash|zsh|fish`: completions for shells, generated from the parser.

Invariants: commands and flags are in the script, so completing them does not run Buddy; only session ids are looked up,
where one is expected. Words that are not commands (a prompt, a flag's value, an id) do not stop the completion.
"""

import argparse
import asyncio
from collections.abc import Iterator

from msgspec import Struct

from buddy.cli.options import Options

MOST_SESSIONS = 50
# A placeholder in a script for the existing sessions.
SESSIONS = "(sessions)"
# The values of a flag, by its name in the help; any other value may be a file.
VALUES = {"POLICY": "ask auto all none", "LEVEL": "host confined container"}


class Word(Struct, frozen=True):
    """A word that can be typed after certain others; a flag may take a value."""

    after: tuple[str, ...]
    text: str
    help: str
    value: str = ""


def completion(parser: argparse.ArgumentParser, options: Options) -> int:
    if options.shell == "sessions":
        return asyncio.run(_print_sessions(options))
    from buddy.cli.parsing.runs import repl_parser

    words = [*words_of(parser), *words_of(repl_parser())]
    print({"bash": _bash, "zsh": _zsh, "fish": _fish}[options.shell](words), end="")
    return 0


async def _print_sessions(options: Options) -> int:
    """Ids and first prompts, most recently used first."""
    from buddy.cli.connect import async_client
    from buddy.client.opening import first_prompt
    from buddy.protocol.requests import ListSessions, ListSessionsReply
    from buddy.terminal.escape import one_line

    async with async_client(options, "cli") as client:
        for found in (await client.request(ListSessions(MOST_SESSIONS), ListSessionsReply)).sessions:
            prompt = one_line(await first_prompt(client, found.session_id), 60)
            print(f"{found.session_id}\t{prompt}")
    return 0


def words_of(parser: argparse.ArgumentParser, after: tuple[str, ...] = ()) -> Iterator[Word]:
    """Every command, action and flag that is not hidden."""
    for action in parser._actions:  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - argparse has no other list
        if action.help == argparse.SUPPRESS:
            continue
        if action.dest == "session_id" and not action.option_strings:
            yield Word(after, SESSIONS, action.help or "")
        value = str(action.metavar or "") if action.nargs != 0 else ""
        for flag in action.option_strings:
            if flag.startswith("--") or value:
                yield Word(after, flag, action.help or "", value)
        shown: list[argparse.Action] = vars(action).get("_choices_actions", [])
        helps = {choice.dest: choice.help or "" for choice in shown}
        for name, inner in _choices(action):
            yield Word(after, name, helps.get(name, "") or action.help or "")
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


def _group(words: list[Word]) -> dict[tuple[str, ...], list[Word]]:
    groups: dict[tuple[str, ...], list[Word]] = {}
    for word in words:
        groups.setdefault(word.after, []).append(word)
    return groups


def _command_pattern(words: list[Word]) -> str:
    """Every command that takes further words, as a pattern for `case`."""
    return "|".join(f'"{" ".join(after)}"' for after in _group(words) if after)


def _flags_with_values(words: list[Word]) -> Iterator[tuple[str, str]]:
    """The flags that take a value, as patterns for `case`, and the values to offer; files if there are none."""
    values = {word.text: VALUES.get(word.value, "") for word in words if word.value}
    for offered in sorted(set(values.values()), reverse=True):
        yield "|".join(flag for flag, known in values.items() if known == offered), offered


def _bash(words: list[Word]) -> str:
    cases = "\n".join(
        f'    "{" ".join(after)}") offered="{" ".join(_bash_word(word) for word in group)}" ;;'
        for after, group in _group(words).items()
    )
    values = "\n".join(
        f'    {flags}) COMPREPLY=($(compgen -W "{offered}" -- "$current")); return ;;'
        for flags, offered in _flags_with_values(words)
    )
    return _BASH.replace("KNOWN", _command_pattern(words)).replace("VALUES", values).replace("CASES", cases)


def _bash_word(word: Word) -> str:
    return "$(buddy completion sessions 2>/dev/null | cut -f 1)" if word.text == SESSIONS else word.text


def _zsh(words: list[Word]) -> str:
    cases = "\n".join(
        f'    "{" ".join(after)}") offered=({" ".join(_zsh_word(word) for word in group)}) ;;'
        for after, group in _group(words).items()
    )
    values = "\n".join(
        f"    {flags}) {f'compadd {offered}' if offered else '_files'}; return ;;"
        for flags, offered in _flags_with_values(words)
    )
    return _ZSH.replace("KNOWN", _command_pattern(words)).replace("VALUES", values).replace("CASES", cases)


def _zsh_word(word: Word) -> str:
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
        described = word.help.replace("\\", "\\\\").replace("'", "\\'")
        lines.append(f"complete -c buddy -n '{when}' {_fish_word(word)} -d '{described}'")
    return "\n".join(lines) + "\n"


def _fish_word(word: Word) -> str:
    if not word.text.startswith("-"):
        return f"-a {word.text}"
    flag = f"-l {word.text[2:]}" if word.text.startswith("--") else f"-s {word.text[1:]}"
    if not word.value:
        return flag
    return f"{flag} -x -a '{VALUES[word.value]}'" if word.value in VALUES else f"{flag} -r -F"


_BASH = """\
# eval "$(buddy completion bash)"
_buddy() {
  local word path="" offered="" current="${COMP_WORDS[COMP_CWORD]}"
  case "${COMP_WORDS[COMP_CWORD-1]}" in
VALUES
  esac
  for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    case "${path:+$path }$word" in
      KNOWN) path="${path:+$path }$word" ;;
    esac
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
  case "${words[CURRENT-1]}" in
VALUES
  esac
  for word in "${words[@]:1:$((CURRENT-2))}"; do
    case "${given:+$given }$word" in
      KNOWN) given="${given:+$given }$word" ;;
    esac
  done
  case "$given" in
CASES
  esac
  if (( ${#offered} )); then _describe 'buddy' offered; else _files; fi
}
compdef _buddy buddy
"""
