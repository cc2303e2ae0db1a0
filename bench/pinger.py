"""Pings a daemon until its stdin ends, then prints how many milliseconds each ping took: `pinger.py SOCKET`."""

import json
import select
import socket
import sys
from time import perf_counter

GAP = 0.005


def main() -> None:
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(sys.argv[1])
    stream = connection.makefile("rwb")
    took: list[float] = []

    def ask(kind: str, payload: dict[str, object]) -> None:
        request = {"v": "push.runtime.v1", "kind": "request", "requestId": f"req_ping.{len(took)}", "type": kind}
        began = perf_counter()
        stream.write(json.dumps({**request, "payload": payload}).encode() + b"\n")
        stream.flush()
        stream.readline()
        took.append((perf_counter() - began) * 1000)

    ask("hello", {"clientName": "pinger", "clientVersion": "1", "capabilities": []})
    took.clear()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    while not select.select([sys.stdin], [], [], GAP)[0]:
        ask("ping", {})
    sys.stdout.write(json.dumps(took))


if __name__ == "__main__":
    main()
