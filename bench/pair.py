"""A bare server on a Unix socket: `python pair.py SOCKET LINES SIZE [DATABASE]`, the floor under what a daemon sends.

`ping` is answered with one line; `all` with a number of ready-made lines of this size; `log` with as many that are read
from the events of a database and put into their envelope, as a daemon must that replays a log. No protocol, no checks.
"""

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path

PORTION = 250


async def main(socket: str, count: int, size: int, database: str | None) -> None:
    line = b"x" * (size - 1) + b"\n"

    def ready() -> Iterator[bytes]:
        for start in range(0, count, PORTION):
            yield line * min(PORTION, count - start)

    def read_log() -> Iterator[bytes]:
        import apsw

        from buddy.log.database import connect

        db = connect(Path(database or ""), apsw.SQLITE_OPEN_READONLY)
        rows = list[bytes]()
        for seq, payload in db.execute("SELECT seq, CAST(payload AS BLOB) FROM events ORDER BY session, seq"):
            rows.append(b'{"v":"push.runtime.v1","kind":"event","seq":%d,"payload":%b}\n' % (seq, payload))
            if len(rows) == PORTION:
                yield b"".join(rows)
                rows.clear()
        yield b"".join(rows)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while asked := await reader.readline():
            if asked == b"ping\n":
                writer.write(line)
                continue
            for portion in read_log() if asked == b"log\n" else ready():
                writer.write(portion)
                await writer.drain()

    server = await asyncio.start_unix_server(serve, socket)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4] if len(sys.argv) > 4 else None))
