"""Whether a folder's own settings are trusted: asked once in a terminal, noted elsewhere.

Invariants: only an explicit yes trusts; both answers are remembered until one of the files changes, but not an end of
input; any other text is asked again; if there is nothing to ask, nothing is loaded.
"""

import os
import sys

from buddy.cli.options import Options
from buddy.cli.session_options import target_of
from buddy.errors import UserError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from buddy.approvals.trust import Effect, Trust

# The names in `trust.TRUST_FILES`, checked before that module is loaded.
NAMES = (
    *("buddy.toml", "agent.toml", ".mcp.json", "opencode.json", "opencode.jsonc", ".opencode", ".factory"),
    *(".claude/settings.json", ".agents/hooks.json", ".claude/skills", ".agents/skills"),
    *(".claude/commands", ".agents/commands", ".claude/agents", ".agents/agents"),
)


def ask_for_trust(options: Options) -> None:
    """Ask the person at the terminal, unless they have answered for these files before."""
    found = _undecided(options)
    if found is None:
        return
    root, trust, effects = found
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        _note(root, effects)
        return
    answer = _ask(root, effects)
    if not answer:
        print(file=sys.stderr)
        return
    try:
        trust.set(root, trusted=answer.strip().lower() in ("y", "yes"))
    except UserError as error:
        print(f"warning: {error}", file=sys.stderr)


def note_untrusted(options: Options) -> None:
    """Without asking, report that the folder's own files are ignored."""
    found = _undecided(options)
    if found is not None:
        _note(found[0], found[2])


def _undecided(options: Options) -> "tuple[str, Trust, list[Effect]] | None":
    root = os.path.realpath(options.directory)
    if target_of(options) != "local" or not any(os.path.lexists(os.path.join(root, name)) for name in NAMES):  # noqa: PTH118 - pathlib is not loaded before a message is sent
        return None
    from buddy.approvals.trust import Trust, effects_of
    from buddy.cli.settings import places_of

    trust, used = Trust(places_of(options).state_dir), os.path.realpath(options.config or "")
    effects = [effect for effect in effects_of(root) if os.path.join(root, effect.name) != used]  # noqa: PTH118 - as above
    return (root, trust, effects) if effects and trust.answer(root) is None else None


def _note(root: str, effects: "list[Effect]") -> None:
    from buddy.terminal.escape import escape

    names = ", ".join(effect.name for effect in effects)
    print(f"note: ignoring {escape(names)} in this folder. To use it: buddy trust {escape(root)}", file=sys.stderr)


def _ask(root: str, effects: "list[Effect]") -> str:
    import termios

    from buddy.terminal.escape import escape, one_line
    from buddy.terminal.line_question import NO, YES, is_readable

    print(f"{escape(root)} has its own Buddy settings:", file=sys.stderr)
    for effect in effects:
        print(f"  {escape(effect.name)}  {one_line(effect.text, sys.maxsize)}", file=sys.stderr)
    stdin = sys.stdin.fileno()
    while True:
        termios.tcflush(stdin, termios.TCIFLUSH)  # keys typed before the question do not answer it
        print("Trust these files as they are now? [y/N] ", end="", file=sys.stderr, flush=True)
        answer = os.read(stdin, 4096).decode(errors="replace")
        if not answer or (answer.strip().lower() in ("", *YES, *NO) and not is_readable(stdin)):
            return answer
