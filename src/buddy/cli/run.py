"""A command from its arguments to its exit code, and how errors are reported."""

import os
import sys

from buddy.cli.commands import parse
from buddy.cli.options import Options
from buddy.errors import BuddyError, ProtocolError, StorageFull, UserError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

TRY_AGAIN = frozenset({"RUN_IN_PROGRESS", "OVERLOADED", "STORAGE_FULL"})
USAGE = frozenset({"PROVIDER_NOT_CONFIGURED", "SANDBOX_UNAVAILABLE", "INVALID_REQUEST", "SESSION_NOT_FOUND"})


def run(arguments: "Sequence[str]") -> int:
    """Parse and run; an expected error becomes one line, a hint and an exit code."""
    try:
        _check_text(arguments)
        return _run_command(parse(arguments))
    except UserError as error:
        return _report(str(error), error.hint, error.exit_code)
    except ProtocolError as error:
        code = 75 if error.code in TRY_AGAIN else 64 if error.code in USAGE else 1
        return _report(error.message, error.detail or "", code)
    except BuddyError as error:
        return _report(str(error), "", 75 if isinstance(error, StorageFull) else 1)
    except UnicodeEncodeError as error:
        if error.encoding != "utf-8":
            raise
        return _report(f"{_undecodable_part(error)!a} is not UTF-8 text", "rename it, or use another directory", 64)
    except BrokenPipeError:
        # The reader of our output is gone; Python would complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        return _report_system(error)
    except KeyboardInterrupt:
        if sys.stderr.isatty():
            print(file=sys.stderr)  # the shell's prompt should start a new line after ^C
        return 130


def _check_text(arguments: "Sequence[str]") -> None:
    for argument in arguments:
        try:
            argument.encode()
        except UnicodeEncodeError:
            raise UserError(f"{argument!a} is not UTF-8 text", hint="pipe the prompt in: … | buddy exec -") from None


def _undecodable_part(error: UnicodeEncodeError) -> str:
    """The name of a file that the system gave us, without what it was put into."""
    before, after = error.object[: error.start], error.object[error.start :]
    return before[max(before.rfind('"'), before.rfind("\n")) + 1 :] + after.partition('"')[0].partition("\n")[0]


def _run_command(options: Options) -> int:
    """Run the command; if it needs a model and none is configured, help to choose one and run it again."""
    try:
        return options.command(options)
    except (UserError, ProtocolError) as error:
        if not options.needs_model:
            raise
        from buddy.cli.first_run import choose_model

        choose_model(options, error)
    return options.command(options)


def _report_system(error: OSError) -> int:
    """An operating system error: a path that can't be written, a full disk, a lost connection."""
    import errno

    what = error.strerror or str(error)
    message = f"{what}: {os.fsdecode(error.filename)}" if isinstance(error.filename, (str, bytes)) else what
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return _report(message, "free some disk and try again", 75)
    if isinstance(error, (ConnectionError, TimeoutError)):
        return _report(message, "try again; buddy daemon logs may say why", 75)
    return _report(message, "buddy doctor checks the directories that Buddy uses; --state-dir names another", 64)


def _report(message: str, hint: str, code: int) -> int:
    from buddy.cli.known_secrets import known_secrets
    from buddy.terminal.escape import escape

    scrubber = known_secrets()  # what was typed may be one: as a flag's value, or as a path
    try:
        print(f"error: {escape(scrubber.text(message, random=False))}", file=sys.stderr)
        if hint:
            print(f"hint: {escape(scrubber.text(hint, random=False))}", file=sys.stderr)
    except OSError:
        pass  # stderr is closed; the exit code remains
    return code
