"""The text that an editor shows of a file, compared with what is saved.

Invariants: line ends, a byte order mark and the end of the last line are the file's: a difference in these alone is
none, because editors keep them apart from the text.
"""

BOM = "\ufeff"


def unsaved_text(saved: bytes, shown: str) -> bytes | None:
    """What saving would write; None if there is nothing to save, or if the file is not UTF-8."""
    try:
        text = saved.decode("utf-8")
        new = _plain(shown)
        if new == _plain(text):
            return None
        new += "\n" if not text or text.endswith("\n") else ""
        new = new.replace("\n", "\r\n") if "\r\n" in text else new
        return (BOM + new if text.startswith(BOM) else new).encode("utf-8")
    except UnicodeError:
        return None


def _plain(text: str) -> str:
    return text.removeprefix(BOM).replace("\r\n", "\n").removesuffix("\n")
