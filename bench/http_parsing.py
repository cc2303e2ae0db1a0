"""Parsing HTTP responses: `python -m bench.http_parsing`. Streams of small chunks, parsed by Buddy's `Response`.

The figures are CPU time, the best of several rounds, for the chunks of one long reply in reads of different sizes.
"""

import math
import time

from buddy.models.http.http1 import Response

CHUNKS = 20_000
DELTA = b'data: {"choices":[{"index":0,"delta":{"content":"word "}}]}\n\n'
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
STREAM = HEAD + (b"%x\r\n%b\r\n" % (len(DELTA), DELTA)) * CHUNKS + b"0\r\n\r\n"


def main() -> None:
    for size in (len(STREAM), 65536, 4096, 80):
        milliseconds = min(_parse(size) for _ in range(10)) * 1e3
        print(f"{CHUNKS} chunks in reads of {size:>8} bytes  {milliseconds:7.1f} ms")


def _parse(size: int) -> float:
    """Seconds of CPU for the stream in reads of this size."""
    response, total = Response(), 0
    began = time.process_time()
    for start in range(0, len(STREAM), size):
        total += len(response.feed(STREAM[start : start + size]))
    spent = time.process_time() - began
    return spent if response.is_complete and total == CHUNKS * len(DELTA) else math.nan


if __name__ == "__main__":
    main()
