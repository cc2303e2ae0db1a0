"""`buddy completion bash|zsh|fish`: what a shell offers after `buddy`, made from the command line itself.

What always holds: the script asks nothing of a running Buddy, so completing is quick and works without one.
"""

import argparse
from collections.abc import Iterator

from msgspec import Struct


class Word(Struct, frozen=True):
    """Something that can be typed, after which words."""

    after: tuple[str, ...]
    text: str
    help: str


def completion(parser: argparse.ArgumentParser, shell: str) -> int:
    words = list(words_of(parser))
    print({"bash": _bash, "zsh": _zsh, "fish": _fish}[shell](words), end="")
    return 0


def words_of(parser: argparse.ArgumentParser, after: tuple[str, ...] = ()) -> Iterator[Word]:
    """Every command, action and flag, the shown ones."""
    for action in parser._actions:  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - argparse has no other list
        if action.help == argparse.SUPPRESS:
            continue
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
    return list(choices.items()) if isinstance(choices, dict) else [(choice, None) for choice in choices]


def _grouped(words: list[Word]) -> dict[tuple[str, ...], list[Word]]:
    groups: dict[tuple[str, ...], list[Word]] = {}
    for word in words:
        groups.setdefault(word.after, []).append(word)
    return groups


def _bash(words: list[Word]) -> str:
    cases = "\n".join(
        f'    "{" ".join(after)}") offered="{" ".join(word.text for word in group)}" ;;'
        for after, group in _grouped(words).items()
    )
    return _BASH.replace("CASES", cases)


def _zsh(words: list[Word]) -> str:
    cases = "\n".join(
        f'    "{" ".join(after)}") offered=({" ".join(_described(word) for word in group)}) ;;'
        for after, group in _grouped(words).items()
    )
    return _ZSH.replace("CASES", cases)


def _described(word: Word) -> str:
    text = f"{word.text}:{word.help}".replace("'", "'\\''")
    return f"'{text}'"


def _fish(words: list[Word]) -> str:
    lines = ["complete -c buddy -f"]
    for word in words:
        seen = " ".join(f"; and __fish_seen_subcommand_from {name}" for name in word.after)
        when = seen.removeprefix("; and ") or "__fish_use_subcommand"
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
