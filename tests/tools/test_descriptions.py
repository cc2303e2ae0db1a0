"""The generated descriptions of the built-in tools are up to date."""

import subprocess
import sys

import msgspec

from buddy.config.settings import ToolSettings
from buddy.tools.descriptions import FILE
from buddy.tools.registry import Registry
from buddy.tools.toolbox import ToolDeps, builtin, toolbox
from tools.tool_descriptions import generate

PROGRAM = """
import sys
from buddy.config.settings import ToolSettings
from buddy.tools.toolbox import ToolDeps, toolbox
toolbox(ToolSettings(), ToolDeps()).specs()
assert not {"buddy.tools.grep", "buddy.tools.edit_file", "buddy.tools.fetch.fetch_url", "difflib"} & set(sys.modules)
"""


def test_the_file_is_that_of_the_tools() -> None:
    kept = FILE.read_bytes()
    assert msgspec.json.decode(kept) == msgspec.json.decode(generate()), "run python -m tools.tool_descriptions"


def test_what_is_offered_is_what_the_tools_themselves_say() -> None:
    lazy = toolbox(ToolSettings(), ToolDeps())
    assert msgspec.json.encode(lazy.specs()) == msgspec.json.encode(Registry(builtin()).specs())
    for tool in builtin():
        assert type(lazy.get(tool.name)) is type(tool)
        assert lazy.get(tool.name) is lazy.get(tool.name)


def test_offering_the_tools_loads_none_of_them() -> None:
    subprocess.run([sys.executable, "-c", PROGRAM], check=True, env={"PYTHONPATH": ":".join(sys.path)})
