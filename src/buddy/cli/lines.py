"""Lines of JSON, by the accelerator under the `json` package: the package itself brings regular expressions along,
which take as long to load as a whole command that talks to the daemon.
"""

from __future__ import annotations

from _json import encode_basestring, make_encoder, make_scanner

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Fields = dict[str, Any]


class _Plain:
    """How the scanner reads: as `json.loads` does."""

    strict = True
    object_hook = object_pairs_hook = None
    parse_int = int
    parse_float = parse_constant = float


def _refuse(value: object) -> object:
    raise TypeError(f"{value!r} is no JSON")


_scan = make_scanner(_Plain)  # pyright: ignore[reportArgumentType] - the stub wants what it makes
_spell = make_encoder(None, _refuse, encode_basestring, None, ":", ",", False, False, True)


def decoded(line: bytes) -> Fields:
    try:
        return _scan(line.decode(), 0)[0]
    except StopIteration:
        raise ValueError(f"not JSON: {line[:80]!r}") from None


def encoded(fields: Fields) -> bytes:
    """One line, spelt as the runtime spells its own."""
    return "".join(_spell(fields, 0)).encode() + b"\n"
