"""Patterns that are kept compiled are the same patterns, and none has somebody's words in it."""

import os
import subprocess
import sys
from pathlib import Path

# Compiles what stands in modules, lazily and at once, and what does not; says how much was compiled and is kept.
PROGRAM = r"""
import importlib, pkgutil, re, sys
import buddy.scrub
from buddy.cli.patterns import Patterns
from buddy.scrub.lazy import Lazy

modules = [importlib.import_module(f"buddy.scrub.{one.name}") for one in pkgutil.iter_modules(buddy.scrub.__path__)]
lazy = [value for module in modules for value in vars(module).values() if isinstance(value, Lazy)]
plain = {one._source: re._compiler.compile(*one._source) for one in lazy}
patterns = Patterns(sys.argv[1])
before = len(patterns._kept)
patterns.__enter__()
assert len(plain) > 40 and all(one.compiled == plain[one._source] for one in lazy)
import tomllib._re, buddy.protocol.requests
assert tomllib._re.RE_NUMBER.match("0x1f").groupdict() == {"floatpart": None}

secret = "hunter2-hunter2"
assert Lazy(secret).search(secret) and re.compile(secret + "+").search(secret)
assert (lambda: re.search(secret + "?", secret))()
patterns.__exit__()
print(before > 40, patterns._has_more)
"""


def test_only_what_stands_in_modules_is_kept_and_it_is_the_same(tmp_path: Path) -> None:
    kept = tmp_path / "patterns"
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    for told in ("False True", "True False"):
        command = [sys.executable, "-c", PROGRAM, str(kept)]
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)
        assert (done.returncode, done.stderr, done.stdout.strip()) == (0, "", told)
        content = kept.read_bytes()
        assert b"hunter2" not in content
        assert b"PASSWD|CREDENTIAL" in content
        assert b"sess_[A-Za-z0-9" in content
    kept.write_bytes(content[:100])
    assert subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False).returncode == 0
