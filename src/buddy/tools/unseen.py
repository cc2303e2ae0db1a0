"""What a command may run beyond the files that were found: imports, recipes, hooks, and what only a shell can expand.

Invariants: this errs on the side of saying so. A program that loads code by rules of its own hides some, whatever the
files say; a shell script hides what it sources or runs by a variable; git hides what its configuration names.
"""

import re
from collections.abc import Callable, Iterable

from buddy.tools.shell.grammar import Words, parse
from buddy.tools.shell.programs import names_of
from buddy.tools.shell.unwrap import possible

MAX_TEXT = 16 * 1024
# Programs that load modules, plugins or settings from where they run.
_LOADERS = frozenset(
    """
    python ipython pypy perl ruby raku node nodejs deno bun php lua luajit Rscript julia java groovy scala kotlin swift
    tsx ts-node elixir guile racket octave jupyter pytest py.test tox nox unittest coverage invoke fab celery flask
    django-admin gunicorn uvicorn sphinx-build mypy pylint flake8 npx bunx uvx pipx uv poetry hatch pdm pip jest vitest
    mocha eslint prettier webpack babel stylelint rollup vite gulp grunt pre-commit go ansible ansible-playbook
    """.split()  # noqa: SIM905 - easier to read
)
_SOURCING = frozenset({"source", ".", "eval", "exec", "sh", "bash", "dash", "zsh", "ksh", "xargs", "env"})
_EXPANDED = re.compile(r"[$`*?]")
# Settings with which git runs nothing, and the subcommands that call no hooks.
_HARMLESS = re.compile(
    r"core\.(?:repositoryformatversion|filemode|bare|logallrefupdates|ignorecase|precomposeunicode|symlinks|autocrlf|eol|quotepath)"
    r"|remote\.(?:url|fetch|pushurl|tagopt|prune)|branch\.(?:remote|merge|rebase|description)|user\.(?:name|email)"
    r"|(?:pull|push|fetch|init|color|advice|submodule)\.(?:rebase|ff|default|prune|defaultbranch|ui|active|url|autosetupremote)"
)
_SETTING = re.compile(r"\s*(?:\[\s*([\w.-]+)[^\]]*\]\s*)?(?:([\w-]+)\s*(=.*)?)?(?:\s*[#;].*)?")
_LOOKING = frozenset(
    """
    status log show diff blame annotate branch tag describe rev-parse rev-list ls-files ls-tree cat-file grep shortlog
    reflog merge-base name-rev for-each-ref show-ref count-objects check-ignore check-attr version var
    """.split()  # noqa: SIM905 - easier to read
)


def hides_code(text: str, builds: Iterable[str], git_hides: Callable[[str], bool]) -> bool:
    """Whether a command or a shell script may run more than the files it names.

    `builds` are the programs that found a file of recipes to run; `git_hides` says so of a subcommand of git.
    """
    if len(text) > MAX_TEXT:
        return True
    parsed = parse(text)
    recipes = frozenset(builds)
    commands = set(() if parsed.has_error else parsed.found)
    if any(map(_sources_by_variable, commands)):
        return True
    return any(_loads(words, recipes, git_hides) for words in {*commands, *possible(text, parsed)})


def is_harmless_config(config: str) -> bool:
    """Whether the configuration of a repository has settings with which git runs no programs."""
    section = ""
    for line in config.splitlines():
        found = _SETTING.fullmatch(line)
        if found is None:
            return False
        section = (found[1] or section).casefold()
        name = f"{section}.{(found[2] or '').casefold()}"
        if found[2] and (_HARMLESS.fullmatch(name) is None or "::" in (found[3] or "")):
            return False
    return True


def _sources_by_variable(words: Words) -> bool:
    if _EXPANDED.search(words[0]):
        return True
    return words[0] in _SOURCING and any(_EXPANDED.search(word) for word in words[1:])


def _loads(words: Words, recipes: frozenset[str], git_hides: Callable[[str], bool]) -> bool:
    names = names_of(words[0])
    if recipes.intersection(names):
        return True
    if "git" in names:
        return git_hides(next((word for word in words[1:] if not word.startswith("-")), ""))
    return not _LOADERS.isdisjoint(names)


def calls_no_hooks(verb: str) -> bool:
    return verb in _LOOKING or not verb
