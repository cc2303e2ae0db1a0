"""The `buddy` command. What is needed to answer is imported by the subcommand that needs it."""

import sys


def main() -> int:
    """Run a command line; give its exit code."""
    if None in (sys.stdin, sys.stdout, sys.stderr):
        _open_missing()
    arguments = sys.argv[1:]
    if arguments == ["--version"]:
        from buddy.version import VERSION

        print(f"buddy {VERSION}")
        return _leave(0)
    import gc

    # A start makes some 60,000 objects that stay; looking through them for garbage again and again is a tenth of it.
    gc.set_threshold(100_000, 20, 20)
    from buddy.cli.run import run

    return _leave(run(arguments))


def _leave(code: int) -> int:
    """End at once: everything is closed by now, and taking the interpreter apart piece by piece takes 10 to 30 ms."""
    import os

    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        code = code or 1  # whoever read our output is gone, or has no room for it
    os._exit(code)


def _open_missing() -> None:
    """A stream that was closed before we were started is /dev/null: else the next file would be taken for it."""
    import os

    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(descriptor)
    sys.stdin = sys.stdin or os.fdopen(0)
    sys.stdout = sys.stdout or os.fdopen(1, "w")
    sys.stderr = sys.stderr or os.fdopen(2, "w")
