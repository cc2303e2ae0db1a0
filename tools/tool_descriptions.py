"""The descriptions of the built-in tools, generated from the tools: `python -m tools.tool_descriptions`."""

import msgspec

from buddy.tools.arguments import schema_of
from buddy.tools.descriptions import FILE, Description
from buddy.tools.toolbox import builtin


def generate() -> bytes:
    """The content of `descriptions.json`."""
    described = {
        tool.name: Description(tool.tier, tool.description, schema_of(tool.args), getattr(tool, "concurrent", False))
        for tool in builtin()
    }
    return msgspec.json.format(msgspec.json.encode(described), indent=1) + b"\n"


if __name__ == "__main__":
    FILE.write_bytes(generate())
