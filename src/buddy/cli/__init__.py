"""The `buddy` command. What is needed to answer is imported by the subcommand that needs it."""

import sys


def main() -> int:
    """Run a command line; give its exit code."""
    arguments = sys.argv[1:]
    if arguments == ["--version"]:
        from buddy.version import VERSION

        print(f"buddy {VERSION}")
        return 0
    from buddy.cli.commands import run

    return run(arguments)
