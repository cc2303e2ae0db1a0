"""The `buddy` command. Each subcommand imports what it needs."""

import sys


def main() -> int:
    """Run a command line; returns its exit code."""
    if None in (sys.stdin, sys.stdout, sys.stderr):
        _open_missing()
    arguments = sys.argv[1:]
    if arguments == ["--version"]:
        from buddy.version import VERSION

        print(f"buddy {VERSION}")
        return _leave(0)
    import gc

    # A start creates some 60,000 objects that stay; collecting garbage among them takes a tenth of its time.
    gc.set_threshold(100_000, 20, 20)
    from buddy.cli.run import run

    return _leave(run(arguments))


def _leave(code: int) -> int:
    """Exit immediately: everything is closed by now, and tearing down the interpreter takes 10 to 30 ms."""
    import os

    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        code = code or 1  # the reader of our output is gone, or its disk is full
    os._exit(code)


def _open_missing() -> None:
    """Open /dev/null for streams that were closed at the start: otherwise the next opened file would replace them."""
    import os

    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(descriptor)
    sys.stdin = sys.stdin or os.fdopen(0)
    sys.stdout = sys.stdout or os.fdopen(1, "w")
    sys.stderr = sys.stderr or os.fdopen(2, "w")
