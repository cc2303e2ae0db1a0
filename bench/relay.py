"""The baseline for an external agent's events: `python relay.py SOCKET WORD…` relays a program's lines to a client."""

import asyncio
import sys


async def main(socket: str, *words: str) -> None:
    over = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not await reader.readline():
            return  # a probe that only checks whether we listen
        program = await asyncio.create_subprocess_exec(*words, stdout=asyncio.subprocess.PIPE)
        assert program.stdout is not None
        while line := await program.stdout.readline():
            writer.write(line)
        writer.close()
        await program.wait()
        over.set()

    async with await asyncio.start_unix_server(serve, socket):
        await over.wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
