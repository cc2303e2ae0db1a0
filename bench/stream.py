"""How fast small deltas go through each wire, beside the bare HTTP client on the same stream in the same run.

`python bench/stream.py [DELTAS] [ROUNDS]`. A server in a process of its own sends a canned answer, one HTTP chunk per
delta. `bare` reads the bytes and drops them, `client` also splits them into lines as the HTTP library does for its
users; `provider` gives the whole reply. The share is the speed in parts of the bare client's, by the median of the
rounds, which take turns; CPU is this process's alone.
"""

import asyncio
import multiprocessing
import os
import socket
import statistics
import sys
import threading
import time
from collections.abc import Awaitable, Callable

import httpx2
import msgspec
from msgspec import Struct

from buddy.models.completions import Completions
from buddy.models.contract import Prompt, Provider, Reply, UserItem
from buddy.models.responses import Responses

WORD = "word "
PROMPT = Prompt("", (UserItem("hi"),))
PATHS = {"completions": "/chat/completions", "responses": "/responses"}


class Timing(Struct, frozen=True):
    seconds: float
    cpu: float


def chunks(api: str, deltas: int) -> list[bytes]:
    """The answer, one piece per event, in the size that servers send."""
    delta: dict[str, object]
    end: dict[str, object]
    if api == "completions":
        delta = {"id": "chatcmpl-0123456789", "object": "chat.completion.chunk", "created": 1_700_000_000, "model": "m"}
        delta["choices"] = [{"index": 0, "delta": {"content": WORD}, "finish_reason": None}]
        end = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
        return [*[_event(delta)] * deltas, _event(end), b"data: [DONE]\n\n"]
    delta = {"type": "response.output_text.delta", "item_id": "msg_0123456789", "output_index": 0, "content_index": 0}
    delta |= {"delta": WORD, "sequence_number": 7, "logprobs": []}
    end = {"type": "response.completed", "response": {"status": "completed", "output": []}}
    return [*[b"event: response.output_text.delta\n" + _event(delta)] * deltas, _event(end)]


def serve(listener: socket.socket, deltas: int) -> None:
    """Answer one request after the other, for ever."""
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    answers = {
        path: head + b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in chunks(api, deltas)) + b"0\r\n\r\n"
        for api, path in PATHS.items()
    }
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=answer, args=(connection, answers), daemon=True).start()


def answer(connection: socket.socket, answers: dict[str, bytes]) -> None:
    with connection, connection.makefile("rb") as requests:
        while line := requests.readline():
            length = 0
            while (header := requests.readline().strip()) != b"":
                name, _, value = header.partition(b":")
                length = int(value) if name.lower() == b"content-length" else length
            requests.read(length)
            connection.sendall(answers[line.split(b" ")[1].decode()])


async def drop_bytes(client: httpx2.AsyncClient, url: str) -> None:
    async with client.stream("POST", url, json={"stream": True}) as response:
        async for _ in response.aiter_raw():
            pass


async def drop_lines(client: httpx2.AsyncClient, url: str) -> None:
    async with client.stream("POST", url, json={"stream": True}) as response:
        async for _ in response.aiter_lines():
            pass


async def read_reply(provider: Provider, deltas: int) -> None:
    async for piece in provider.stream(PROMPT):
        if isinstance(piece, Reply):
            assert len(piece.text) == deltas * len(WORD)


async def measure(run: Callable[[], Awaitable[None]]) -> Timing:
    began, cpu = time.perf_counter(), time.process_time()
    await run()
    return Timing(time.perf_counter() - began, time.process_time() - cpu)


async def compare(api: str, base_url: str, deltas: int, rounds: int) -> float:
    make = Completions if api == "completions" else Responses
    provider = make("bench", base_url, "", "m", 8192)
    url = base_url + PATHS[api]
    async with httpx2.AsyncClient() as client:
        ways: dict[str, Callable[[], Awaitable[None]]] = {
            "bare": lambda: drop_bytes(client, url),
            "client": lambda: drop_lines(client, url),
            "provider": lambda: read_reply(provider, deltas),
        }
        timings: dict[str, list[Timing]] = {name: [] for name in ways}
        for name in list(ways) * (rounds + 1):
            timings[name].append(await measure(ways[name]))
    await provider.close()
    medians = {name: statistics.median(timing.seconds for timing in taken[1:]) for name, taken in timings.items()}
    for name, taken in timings.items():
        cpu = statistics.median(timing.cpu for timing in taken[1:])
        share = medians["bare"] / medians[name]
        print(f"{api:12} {name:9} {deltas / medians[name]:11,.0f} {cpu / deltas * 1e6:9.2f} {share:8.0%}")
    return medians["bare"] / medians["provider"]


def main() -> None:
    deltas = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 9
    listener = socket.create_server(("127.0.0.1", 0))
    server = multiprocessing.get_context("fork").Process(target=serve, args=(listener, deltas), daemon=True)
    server.start()
    base_url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    print(f"{deltas:,} deltas, median of {rounds} rounds, {os.cpu_count()} cores")
    print(f"{'wire':12} {'reader':9} {'deltas/s':>11} {'CPU µs':>9} {'share':>8}")
    try:
        for api in PATHS:
            asyncio.run(compare(api, base_url, deltas, rounds))
    finally:
        server.kill()
        server.join()


def _event(data: dict[str, object]) -> bytes:
    return b"data: " + msgspec.json.encode(data) + b"\n\n"


if __name__ == "__main__":
    main()
