"""The forms in which one secret can appear in text.

Invariants: wherever the secret is written verbatim, JSON-escaped, percent-encoded, in hex or inside base64 at any
offset, one of its forms occurs.
"""

from collections.abc import Iterator

MIN_LENGTH = 8

_MIN_LINE = 16
_TO_URLSAFE = str.maketrans("+/", "-_")


def forms(secret: str) -> set[str]:
    """All forms of the secret; those of a text with several lines include its lines."""
    found = set(_text_forms(secret))
    raw = secret.encode("utf-8", "surrogatepass")
    found.update((raw.hex(), raw.hex().upper()))
    for text in _base64(raw):
        found.update((text, text.translate(_TO_URLSAFE)))
    return {form for form in found if len(form) >= MIN_LENGTH}


def _text_forms(secret: str) -> Iterator[str]:
    yield secret
    # A key file is often printed or sent line by line; its armour is public.
    for line in secret.splitlines():
        if len(line) >= _MIN_LINE and not line.startswith("-----"):
            yield line
    import json  # needed only once a secret is registered

    for ascii_only in (True, False):
        # Twice: tool arguments are JSON text inside JSON.
        once = json.dumps(secret, ensure_ascii=ascii_only)[1:-1]
        yield once
        yield json.dumps(once, ensure_ascii=ascii_only)[1:-1]
    yield from _percent(secret)


def _percent(secret: str) -> Iterator[str]:
    from urllib.parse import quote as plain
    from urllib.parse import quote_plus

    for quote in (plain, quote_plus):
        for safe in ("", "/", "/:@!$&'()*,;=~-._"):
            text = quote(secret, safe=safe, errors="surrogatepass")
            yield text
            yield _lower_escapes(text)


def _lower_escapes(text: str) -> str:
    head, *escapes = text.split("%")
    return "%".join([head, *(escape[:2].lower() + escape[2:] for escape in escapes)])


def _base64(raw: bytes) -> Iterator[str]:
    import base64

    encoded = base64.b64encode(raw).decode()
    yield encoded
    yield encoded.rstrip("=")
    for before in range(3):
        # After `before` other bytes, these characters depend on the secret alone, whatever follows it.
        text = base64.b64encode(bytes(before) + raw).decode()
        yield text[(before * 8 + 5) // 6 : (before + len(raw)) * 8 // 6]
