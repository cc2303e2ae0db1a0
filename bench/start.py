"""How long it takes until something happens: the version, the first model request of a cold `exec`, and of a warm one.

Every figure stands beside floors of the same run: a bare interpreter, and one that sends a request with asyncio.
"""

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CHUNKS = (
    b'data: {"choices":[{"index":0,"delta":{"content":"hi"}}]}\n\n'
    b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
)
REPLY = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n" + CHUNKS
FLOOR = """
import asyncio, sys
async def main():
    reader, writer = await asyncio.open_connection("127.0.0.1", int(sys.argv[1]))
    writer.write(b"POST /v1/chat/completions HTTP/1.1\\r\\nHost: x\\r\\nContent-Length: 0\\r\\n\\r\\n")
    await reader.read()
asyncio.run(main())
"""


class Model:
    """A loopback model that answers at once and knows when it was asked."""

    def __init__(self) -> None:
        self.asked = 0.0
        self.answered = 0.0
        self.port = 0

    async def serve(self) -> asyncio.Server:
        server = await asyncio.start_server(self._answer, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        return server

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        if head.startswith(b"POST"):
            self.asked = time.perf_counter()
            writer.write(REPLY)
        else:
            writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        await writer.drain()
        self.answered = time.perf_counter()
        writer.close()


async def _timed(model: Model, command: list[str], env: dict[str, str], folder: str) -> tuple[float, float]:
    """Milliseconds from start to the first request, and from the last byte to the end."""
    started = time.perf_counter()
    process = await asyncio.create_subprocess_exec(
        *command, env=env, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL
    )
    await process.wait()
    return (model.asked - started) * 1000, (time.perf_counter() - model.answered) * 1000


def _whole(command: list[str]) -> float:
    started = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return (time.perf_counter() - started) * 1000


async def _measure(rounds: int) -> dict[str, list[float]]:
    model = Model()
    server = await model.serve()
    found: dict[str, list[float]] = {}
    buddy = [sys.executable, "-m", "buddy"]
    with tempfile.TemporaryDirectory() as folder:
        env = {**os.environ, "BUDDY_BASE_URL": f"http://127.0.0.1:{model.port}/v1", "BUDDY_MODEL": "bench"}
        env |= {
            "BUDDY_STATE_DIR": f"{folder}/state",
            "XDG_CONFIG_HOME": f"{folder}/config",
            "PYTHONDONTWRITEBYTECODE": "",
        }
        Path(folder, "floor.py").write_text(FLOOR)
        floor = [sys.executable, f"{folder}/floor.py", str(model.port)]
        execute = [*buddy, "exec", "hi"]
        await _timed(model, execute, env, folder)
        for _ in range(rounds):
            found.setdefault("python -c pass", []).append(_whole([sys.executable, "-c", "pass"]))
            found.setdefault("buddy --version", []).append(_whole([*buddy, "--version"]))
            found.setdefault("floor: asyncio, one request", []).append((await _timed(model, floor, env, folder))[0])
            first, last = await _timed(model, execute, env, folder)
            found.setdefault("exec, no daemon: start to first request", []).append(first)
            found.setdefault("exec, no daemon: last byte to exit", []).append(last)
        subprocess.run([*buddy, "daemon", "start"], env=env, check=True, stderr=subprocess.DEVNULL)
        try:
            for _ in range(rounds):
                first, last = await _timed(model, execute, env, folder)
                found.setdefault("exec, warm daemon: start to first request", []).append(first)
                found.setdefault("exec, warm daemon: last byte to exit", []).append(last)
        finally:
            subprocess.run([*buddy, "daemon", "stop"], env=env, check=True, stderr=subprocess.DEVNULL)
    server.close()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rounds", nargs="?", type=int, default=15)
    found = asyncio.run(_measure(parser.parse_args().rounds))
    bare = statistics.median(found["python -c pass"])
    print(f"{'':44}{'median':>9}{'best':>9}{'x python':>10}")
    for name, figures in found.items():
        middle = statistics.median(figures)
        print(f"{name:44}{middle:7.1f}ms{min(figures):7.1f}ms{middle / bare:9.1f}x")


if __name__ == "__main__":
    main()
