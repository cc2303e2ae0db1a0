"""How much of a long text the model is told: its head and its tail, and what is missing between them."""

TO_MODEL = 16 * 1024


def bounded(text: str, limit: int = TO_MODEL, output: str = "") -> str:
    """The text itself where it fits into `limit` bytes, else head and tail with a note between them.

    `output` is what the whole is kept as, for the model to read on in.
    """
    data = text.encode(errors="replace")
    if len(data) <= limit:
        return text
    half = limit // 2
    head = data[:half].decode(errors="ignore")
    tail = data[-half:].decode(errors="ignore")
    missing = len(data) - len(head.encode()) - len(tail.encode())
    rest = f"read_output(output={output}, offset={len(head.encode())}) reads on" if output else "the whole is kept"
    return f"{head}\n[… {missing} of {len(data)} bytes left out; {rest} …]\n{tail}"
