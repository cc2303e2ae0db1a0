"""An MCP server for tests, run as a program of its own: `python -m tests.harness.mcp_server [http PORT]`.

What it does is written to the file in `MCP_LEDGER`, one line per call, so that a test can count effects.
"""

import asyncio
import os
import sys
from pathlib import Path
from typing import Annotated

from mcp.server.elicitation import ElicitationResult
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.resolve import Elicit, Resolve
from mcp_types import ImageContent, ResourceLink, TextContent
from pydantic import BaseModel

server = MCPServer("tests", instructions="For tests.")


def note(line: str) -> None:
    ledger = os.environ.get("MCP_LEDGER")
    if ledger:
        with Path(ledger).open("a") as file:
            file.write(f"{line}\n")


note(f"start {os.getpid()}")


class Sum(BaseModel):
    total: int


@server.tool()
def echo(text: str) -> str:
    """Says the text again."""
    note(f"echo {text}")
    return f"echo: {text}"


@server.tool()
def add(a: int, b: int) -> Sum:
    """Adds two numbers."""
    note(f"add {a} {b}")
    return Sum(total=a + b)


@server.tool()
def environment() -> str:
    """The names of all variables, and the folder."""
    return f"{sorted(os.environ)} in {Path.cwd()}"


@server.tool()
def secret() -> str:
    """Says a secret that it was configured with."""
    return f"the token is {os.environ.get('MY_TOKEN', 'unset')}"


@server.tool(structured_output=False)
def picture() -> list[TextContent | ImageContent | ResourceLink]:
    """Shows a picture."""
    return [
        TextContent(text="Look:"),
        ImageContent(data="iVBORw0KGgo=" * 200, mime_type="image/png"),
        ResourceLink(name="notes", uri="memo://notes"),
    ]


@server.tool()
def fail(why: str) -> str:
    """Fails."""
    note(f"fail {why}")
    raise ValueError(why)


@server.tool()
def die() -> str:
    """Ends the server."""
    note("die")
    sys.stderr.write("dying as asked\n")
    sys.stderr.flush()
    os._exit(7)


@server.tool()
async def slow(seconds: float, ctx: Context) -> str:
    """Takes its time and reports how far it is."""
    note(f"slow {seconds}")
    for step in range(1, 5):
        await ctx.report_progress(step, 4, f"step {step}")
        await asyncio.sleep(seconds / 4)
    note("slow done")
    return "slow done"


@server.resource("memo://notes")
def notes() -> str:
    """The notes."""
    note("read notes")
    return "buy milk"


@server.prompt()
def review(path: str, style: str = "strict") -> str:
    """Asks for a review."""
    return f"Review {path}, be {style}."


class Order(BaseModel):
    size: int = 2
    colour: str


def ask_for_order() -> Elicit[Order]:
    return Elicit("What would you like?", Order)


@server.tool()
async def order(answer: Annotated[ElicitationResult[Order], Resolve(ask_for_order)]) -> str:
    """Asks what to order."""
    note(f"order {answer.action}")
    return f"{answer.action}: {answer.data.model_dump() if answer.action == 'accept' else None}"


if __name__ == "__main__":
    if sys.argv[1:2] == ["http"]:
        server.run("streamable-http", port=int(sys.argv[2]))
    else:
        server.run("stdio")
