"""An MCP server on stdio with as many tools as its argument says: `python tool_server.py 250`."""

import json
import sys

SCHEMA = {"type": "object", "properties": {"text": {"type": "string", "description": "What to look at"}}}


def _reply(method: str, params: dict[str, object]) -> dict[str, object]:
    if method == "initialize":
        info = {"name": "bench", "version": "1"}
        return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": info}
    if method == "tools/list":
        described = "Looks at the text, and says what it is about in one sentence."
        tools = [
            {"name": f"look_{number}", "description": described, "inputSchema": SCHEMA}
            for number in range(int(sys.argv[1]))
        ]
        return {"tools": tools}
    return {"content": [{"type": "text", "text": "seen"}]}


for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        result = _reply(message["method"], message.get("params") or {})
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
