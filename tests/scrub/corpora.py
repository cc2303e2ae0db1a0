"""Ordinary text that any machine has, by kind: what a scrubber must leave alone."""

import base64
import hashlib
import json
import os
import random
import subprocess
import sysconfig
import uuid
from collections.abc import Callable, Iterable
from pathlib import Path

SIZE = 1_000_000
ROOT = Path(__file__).parents[2]
PACKAGES = Path(sysconfig.get_paths()["purelib"])


def source() -> str:
    return _first(sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py")))


def installed_source() -> str:
    return _first(sorted(PACKAGES.glob("h*/**/*.py")))


def docs() -> str:
    return _first(
        sorted([*PACKAGES.glob("*.dist-info/METADATA"), *PACKAGES.glob("**/*.md"), *PACKAGES.glob("**/*.rst")])
    )


def records() -> str:
    """Lists of files with their base64 sums."""
    return _first(sorted(PACKAGES.glob("*.dist-info/RECORD")))


def history() -> str:
    """What `git log --stat` prints; made up where this is not a repository."""
    command = ["git", "-C", str(ROOT), "log", "--stat", "-n", "2000"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout[:SIZE] if done.returncode == 0 else _made_up_history()


def listing() -> str:
    """What `ls -lR` prints of the installed packages."""
    lines: list[str] = []
    for folder, folders, files in os.walk(PACKAGES):
        lines.append(f"{folder}:")
        lines += (f"-rw-r--r-- 1 user user {len(name) * 997:>8} Jan  2 03:04 {name}" for name in (*folders, *files))
        if sum(map(len, lines[-200:])) and len(lines) > SIZE // 60:
            break
    return "\n".join(lines)[:SIZE]


def log() -> str:
    """A service's log: times, ids, addresses, durations."""
    dice = random.Random(7)  # noqa: S311 - repeatable, not secret
    return "\n".join(_log_line(dice) for _ in range(SIZE // 150))


def lockfile() -> str:
    """What a package manager writes: versions, addresses and integrity sums."""
    dice = random.Random(11)  # noqa: S311 - repeatable, not secret
    packages = {
        f"node_modules/package-{number}": {
            "version": f"{dice.randrange(9)}.{dice.randrange(40)}.{dice.randrange(20)}",
            "resolved": f"https://registry.invalid/package-{number}/-/package-{number}-1.0.0.tgz",
            "integrity": "sha512-" + base64.b64encode(dice.randbytes(64)).decode(),
        }
        for number in range(SIZE // 300)
    }
    return json.dumps({"lockfileVersion": 3, "packages": packages}, indent=2)


def hashes() -> str:
    """Nothing but hashes and UUIDs, bare and as tools print them."""
    dice = random.Random(13)  # noqa: S311 - repeatable, not secret
    lines: list[str] = []
    for number in range(4000):
        raw = dice.randbytes(16)
        sha1, sha256 = hashlib.sha1(raw, usedforsecurity=False).hexdigest(), hashlib.sha256(raw).hexdigest()
        name = uuid.UUID(bytes=raw)
        lines += (sha1, f"commit {sha1}", f"{sha256}  file{number}.tar.gz", f"sha256:{sha256}", str(name), f"id={name}")
        lines += (f'{{"key": "{sha256}", "etag": "{sha1}", "id": "{str(name).upper()}"}}', sha256.upper())
    return "\n".join(lines)


ORDINARY = {
    "Python's library": source,
    "installed source": installed_source,
    "documents": docs,
    "file records": records,
    "git log --stat": history,
    "ls -lR": listing,
    "service log": log,
}


def _first(files: Iterable[Path]) -> str:
    parts: list[str] = []
    size = 0
    for file in files:
        parts.append(file.read_text(errors="replace"))
        size += len(parts[-1])
        if size >= SIZE:
            break
    return "".join(parts)[:SIZE]


def _log_line(dice: random.Random) -> str:
    name = uuid.UUID(bytes=dice.randbytes(16))
    when = f"2026-01-{dice.randrange(1, 29):02}T{dice.randrange(24):02}:00:00.{dice.randrange(999):03}Z"
    what = f"path=/api/v1/items/{dice.randrange(10**6)} status=200 took={dice.random():.3f}s"
    return f"{when} INFO [worker-{dice.randrange(9)}] request_id={name} {what} commit={dice.randbytes(20).hex()}"


def _made_up_history() -> str:
    dice = random.Random(17)  # noqa: S311 - repeatable, not secret
    return "\n".join(
        f"commit {dice.randbytes(20).hex()}\n\n    Change {n}\n\n src/f{n}.py | 3 ++-" for n in range(2000)
    )


# Text that makes a careless pattern backtrack, by name: of about this many characters.
HOSTILE: dict[str, Callable[[int], str]] = {
    "one letter": lambda size: "a" * size,
    "one letter and blanks": lambda size: "a " * (size // 2),
    "nothing but blanks": lambda size: " " * size,
    "names": lambda size: "token" * (size // 5),
    "names and signs": lambda size: "key=" * (size // 4),
    "open quotes": lambda size: 'key="' * (size // 5),
    "backslashes": lambda size: "\\" * size,
    "armour": lambda size: "-----BEGIN PRIVATE KEY-----" * (size // 27),
    "armour and base64": lambda size: ("-----BEGIN PRIVATE KEY-----\n" + "A" * 60 + "\n") * (size // 89),
    "armour lines": lambda size: "-----BEGIN RSA PRIVATE KEY-----\n" * (size // 32),
    "armour after words": lambda size: ("A" * 20 + "-----BEGIN RSA PRIVATE KEY-----\n") * (size // 52),
    "armour after names": lambda size: "-----BEGIN PRIVATE KEY-----\nABCDEFGHIJKLMNtoken= " * (size // 49),
    "armour in JSON": lambda size: '"key": "-----BEGIN PRIVATE KEY-----\\nAbc: ' * (size // 42),
    "8-bit openings": lambda size: "\x90a" * (size // 2),
    "open colours": lambda size: "\x1b[1;" * (size // 4),
    "overstruck": lambda size: "a\b" * (size // 2),
    "taken back": lambda size: "a" + "\bx" * (size // 2),
    "tokens cut short": lambda size: "eyJhbGci-" * (size // 9),
    "dotted": lambda size: "eyJaaaaaaaa." * (size // 12),
    "userinfo": lambda size: "://a:" * (size // 5),
    "users": lambda size: "-u " * (size // 3),
    "passwords": lambda size: ('password="' + "aB" * 95 + '!" ') * (size // 203),
    "base64": lambda size: "aB3/" * (size // 4),
    "capital letters": lambda size: "A" * size,
    "secrets of secrets": lambda size: "secret=" * (size // 7),
    "passwords of passwords": lambda size: "pwd=" * (size // 4),
    "queries": lambda size: "?access_token=" * (size // 14),
    "flags without values": lambda size: "--token " * (size // 8),
    "headers of keys": lambda size: "Aaa: -----BEGIN PRIVATE KEY-----\n" * (size // 33),
    "a key of blanks": lambda size: "-----BEGIN PRIVATE KEY-----" + " " * (size - 27),
    "tokens that end at a mark": lambda size: "p8e-" * (size // 4),
    "chained headers": lambda size: "authorization:token " * (size // 20),
    "long words": lambda size: ("a" * 8000 + " ") * (size // 8001),
    "a line of names": lambda size: "my api_key is in this line, " * (size // 28),
    "marks": lambda size: "[REDACTED]" * (size // 10),
    "a secret over and over": lambda size: "hunter2hunter2" * (size // 14),
    "binary": lambda size: "".join(map(chr, range(256))) * (size // 256),
}
