"""How much of a long text the model is told: its head and its tail, and what is missing between them."""

TO_MODEL = 16 * 1024


def bounded(text: str, limit: int = TO_MODEL) -> str:
    """The text itself where it fits into `limit` bytes, else head and tail with a note between them."""
    data = text.encode(errors="replace")
    if len(data) <= limit:
        return text
    half = limit // 2
    head = data[:half].decode(errors="ignore")
    tail = data[-half:].decode(errors="ignore")
    missing = len(data) - len(head.encode()) - len(tail.encode())
    return f"{head}\n[… {missing} of {len(data)} bytes left out; the whole output is kept …]\n{tail}"
