"""Shortens long texts for the model: head and tail stay, with a note of what is missing between them."""

TO_MODEL = 16 * 1024


def shorten_middle(text: str, limit: int = TO_MODEL, output: str = "") -> str:
    """The text itself if it fits into `limit` bytes, else as much of its head and tail as fits, with a note between.

    `output` is the id under which the full text is stored, for the model to read the rest.
    """
    data = text.encode(errors="replace")
    if len(data) <= limit:
        return text
    size = len(data)
    half = max(limit - len(_note(size, size, size, output).encode()), limit // 2) // 2
    head = data[:half].decode(errors="ignore")
    tail = data[-half:].decode(errors="ignore")
    offset = len(head.encode())
    return f"{head}{_note(size - offset - len(tail.encode()), size, offset, output)}{tail}"


def _note(missing: int, size: int, offset: int, output: str) -> str:
    rest = f"read_output(output={output}, offset={offset}) reads on" if output else "the full text is stored"
    return f"\n[… {missing} of {size} bytes left out; {rest} …]\n"
