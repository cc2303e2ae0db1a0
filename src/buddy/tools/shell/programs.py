"""Programs that take their ordinary words for data: the only ones for whose words a wildcard in a rule may stand.

Invariants: this is a list of what is known to be harmless, so a program that is missing here, be it a shell, a compiler
or one that nobody has heard of, is matched by its exact words alone.
"""

import re
from functools import lru_cache

# They read and write nothing but what their words name. Some of their options do more; see `dangerous`.
DATA = frozenset(
    """
    : true false echo printf pwd cd test type sleep seq basename dirname realpath readlink whoami id uname uptime nproc
    tty groups df du free ps which printenv expr factor cal yes date hostname wait sync mktemp who users logname
    cat head tail wc ls stat file od xxd hexdump strings md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum
    cksum base32 base64 diff cmp comm cut nl tac rev fold paste join uniq sort shuf tr numfmt tsort look locate split
    csplit iconv tree column pr fmt grep egrep fgrep rg fd fdfind bat batcat jq yq nm objdump readelf size
    cp mv ln rm rmdir mkdir touch tee dd install shred truncate chmod chown mkfifo sponge gzip bzip2 xz zstd
    git gh curl wget ping dig host nslookup
    shellcheck hadolint yamllint ruff black isort pandoc
    """.split()  # noqa: SIM905 - easier to read
)

_SYSTEM = re.compile(r"/(?:usr/(?:local/)?)?s?bin|/opt/homebrew/bin|/nix/store/[^/]+/bin|/run/current-system/sw/bin")
_VERSION = re.compile(r"(?:[-_.]?\d[\d.]*)+$")
_PLATFORM = re.compile(r"(?:[a-z0-9_]+-){2,3}(?=[a-z+]+$)")


def takes_data(program: str) -> bool:
    """Whether a wildcard may stand for the words of this program; one that lies elsewhere is not that program."""
    folder, _, name = program.rpartition("/")
    return name in DATA and (not folder or _SYSTEM.fullmatch(folder) is not None)


@lru_cache(1024)
def names_of(program: str) -> tuple[str, ...]:
    """What a program may be called: `x86_64-linux-gnu-gcc-12` is `gcc`, and `python3.11` is `python`."""
    name = program.rsplit("/", 1)[-1].removesuffix(".exe")
    plain = _VERSION.sub("", name) or name
    return tuple(dict.fromkeys((name, plain, _PLATFORM.sub("", plain))))
