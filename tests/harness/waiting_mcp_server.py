"""An MCP server that handles one thing at a time: `python -m tests.harness.waiting_mcp_server`, without the SDK.

While it waits for the answer to its question it serves nothing else. Its calls report the answer; `ask_late` ends
before it has come, and the next call reports it.
"""

import json
import sys
from typing import Any

NOTHING: dict[str, Any] = {"type": "object", "properties": {}}
FORM: dict[str, Any] = {"type": "object", "properties": {"name": {"type": "string"}}}


def send(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def receive() -> dict[str, Any]:
    line = sys.stdin.readline()
    if not line:
        raise SystemExit
    return json.loads(line)


def ask(number: int) -> None:
    send({"id": number, "method": "elicitation/create", "params": {"message": "Who?", "requestedSchema": FORM}})


def wait_answer(number: int) -> str:
    while True:
        message = receive()
        if message.get("id") == number and "method" not in message:
            return json.dumps(message.get("result", message.get("error")), sort_keys=True)


def answer(request: dict[str, Any], text: str) -> None:
    send({"id": request["id"], "result": {"content": [{"type": "text", "text": text}]}})


def initialized(request: dict[str, Any]) -> dict[str, Any]:
    version = request["params"]["protocolVersion"]
    return {
        "protocolVersion": version,
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "waiting", "version": "1"},
    }


def call(request: dict[str, Any], number: int) -> None:
    ask(number)
    if request["params"]["name"] == "ask_late":
        answer(request, "asked")
        heard = wait_answer(number)
        answer(wait_call(), heard)
    else:
        answer(request, wait_answer(number))


def wait_call() -> dict[str, Any]:
    while (message := receive()).get("method") != "tools/call":
        pass
    return message


def main() -> None:
    number = 0
    while True:
        request = receive()
        method = request.get("method")
        if method == "initialize":
            send({"id": request["id"], "result": initialized(request)})
        elif method == "tools/list":
            tools = [{"name": name, "description": "Asks.", "inputSchema": NOTHING} for name in ("ask", "ask_late")]
            send({"id": request["id"], "result": {"tools": tools}})
        elif method == "tools/call":
            number += 1
            call(request, number)
        elif "id" in request and method:
            send({"id": request["id"], "error": {"code": -32601, "message": "no such method"}})


if __name__ == "__main__":
    main()
