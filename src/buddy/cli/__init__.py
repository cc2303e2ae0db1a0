"""The `buddy` command. What is needed to answer is imported by the subcommand that needs it."""

import sys


def main() -> int:
    """Run a command line; give its exit code."""
    arguments = sys.argv[1:]
    if arguments == ["--version"]:
        from buddy.version import VERSION

        print(f"buddy {VERSION}")
        return 0
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
    except BrokenPipeError:
        code = code or 1  # whoever read our output is gone
    os._exit(code)
