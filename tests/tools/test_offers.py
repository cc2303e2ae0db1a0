"""What a model is told of the built-in tools was made beforehand, and is what would be made now."""

import subprocess
import sys
from pathlib import Path

import msgspec

from buddy.config.settings import ToolSettings
from buddy.tools import offers
from buddy.tools.registry import Registry
from buddy.tools.toolbox import Supplies, builtin, toolbox

PROGRAM = """
import sys
from buddy.config.settings import ToolSettings
from buddy.tools.toolbox import Supplies, toolbox
toolbox(ToolSettings(), Supplies()).specs()
assert not {"buddy.tools.grep", "buddy.tools.edit_file", "buddy.tools.fetch.fetch_url", "difflib"} & set(sys.modules)
"""


def test_the_file_is_that_of_the_tools() -> None:
    kept = Path(offers.__file__).with_name("offers.json").read_bytes()
    assert msgspec.json.decode(kept) == msgspec.json.decode(offers.source()), "python -m buddy.tools.offers writes it"


def test_what_is_offered_is_what_the_tools_themselves_say() -> None:
    shelved = toolbox(ToolSettings(), Supplies())
    assert msgspec.json.encode(shelved.specs()) == msgspec.json.encode(Registry(builtin()).specs())
    for tool in builtin():
        assert type(shelved.get(tool.name)) is type(tool)
        assert shelved.get(tool.name) is shelved.get(tool.name)


def test_offering_the_tools_loads_none_of_them() -> None:
    subprocess.run([sys.executable, "-c", PROGRAM], check=True, env={"PYTHONPATH": ":".join(sys.path)})
