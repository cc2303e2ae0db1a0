"""The question whether a folder's own files may have an effect: asked once in a terminal, and a note elsewhere.

What always holds: nothing but a clear yes trusts; both answers are remembered until one of the files changes, but not
the end of the input; where there is nothing to ask about, nothing is loaded for it.
"""

import os
import sys

from buddy.cli.options import Options
from buddy.cli.session_options import target_of
from buddy.errors import UserError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from buddy.approvals.trust import Effect, Trust

# Those of `trust.HONOURED`, looked for before any of that is loaded.
NAMES = ("buddy.toml", "agent.toml", ".mcp.json", "opencode.json", "opencode.jsonc", ".opencode", ".factory")


def ask_for_trust(options: Options) -> None:
    """Where a person can be asked and has not answered for these files yet, ask."""
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
    """Where nobody is asked: say that the folder's own files have no effect."""
    found = _undecided(options)
    if found is not None:
        _note(found[0], found[2])


def _undecided(options: Options) -> "tuple[str, Trust, list[Effect]] | None":
    root = os.path.realpath(options.directory)
    if target_of(options) != "local" or not any(os.path.lexists(os.path.join(root, name)) for name in NAMES):  # noqa: PTH118
        return None
    from buddy.approvals.trust import Trust, effects_of
    from buddy.cli.settings import places_of

    trust, effects = Trust(places_of(options).state_dir), effects_of(root)
    return (root, trust, effects) if effects and trust.answer(root) is None else None


def _note(root: str, effects: "list[Effect]") -> None:
    from buddy.terminal.escape import escape

    names = ", ".join(effect.name for effect in effects)
    print(f"note: {escape(names)} has no effect before you say: buddy trust {escape(root)}", file=sys.stderr)


def _ask(root: str, effects: "list[Effect]") -> str:
    import termios

    from buddy.terminal.escape import escape, one_line

    print(f"{escape(root)} has files that want to have a say:", file=sys.stderr)
    for effect in effects:
        print(f"  {escape(effect.name)}  {one_line(effect.text, 300)}", file=sys.stderr)
    termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)  # what was typed before is no answer
    print("trust them as they are now? [y/N] ", end="", file=sys.stderr, flush=True)
    return os.read(sys.stdin.fileno(), 4096).decode(errors="replace")
