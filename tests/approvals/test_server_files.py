"""Trust in a folder covers what its MCP servers start, in the forms in which these are usually written."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from buddy.approvals.trust import hash_of
from buddy.tools.mcp.definitions import read_project_file

FORMS: dict[str, tuple[dict[str, Any], dict[str, str], str]] = {
    "uv in another directory": (
        {"command": "uv", "args": ["--directory", "tools", "run", "main.py"]},
        {"tools/main.py": ""},
        "tools/main.py",
    ),
    "uv with the directory in one word": (
        {"command": "uv", "args": ["run", "--project=tools", "main.py"]},
        {"tools/main.py": ""},
        "tools/main.py",
    ),
    "an entry point of a project": (
        {"command": "uv", "args": ["--directory", "tools", "run", "my-server"]},
        {
            "tools/pyproject.toml": '[project.scripts]\nother = "else_where:main"\nmy-server = "my_server.cli:main"\n',
            "tools/src/my_server/cli.py": "from .deep import answer\n",
            "tools/src/my_server/deep.py": "",
        },
        "tools/src/my_server/deep.py",
    ),
    "a module on PYTHONPATH": (
        {"command": "python", "args": ["-m", "myserver"], "env": {"PYTHONPATH": "lib:src2"}},
        {"src2/myserver/__main__.py": ""},
        "src2/myserver/__main__.py",
    ),
    "the package of a module": (
        {"command": "python", "args": ["-m", "pkg.sub.server"]},
        {"pkg/sub/server.py": "", "pkg/__init__.py": ""},
        "pkg/__init__.py",
    ),
    "a module of an imported package": (
        {"command": "python", "args": ["server.py"]},
        {"server.py": "from lib import helpers\n", "lib/helpers.py": ""},
        "lib/helpers.py",
    ),
    "an import over several lines": (
        {"command": "python", "args": ["-m", "app.server"]},
        {"app/server.py": "from . import (\n    core,\n    more,\n)\n", "app/more.py": ""},
        "app/more.py",
    ),
    "an import of the package above": (
        {"command": "python", "args": ["-m", "app.server.main"]},
        {"app/server/main.py": "from ..core.base import x\n", "app/core/base.py": ""},
        "app/core/base.py",
    ),
    "an import from a folder that was added to the path": (
        {"command": "python", "args": ["server.py"]},
        {"server.py": "sys.path.insert(0, 'vendor')\nimport thing\n", "vendor/thing.py": ""},
        "vendor/thing.py",
    ),
    "a call over several lines": (
        {"command": "python", "args": ["server.py"]},
        {"server.py": "subprocess.run(\n    ['sh',\n     'start.sh'],\n)\n", "start.sh": ""},
        "start.sh",
    ),
    "a directory of its own": (
        {"command": "node", "args": ["index.js"], "cwd": "server"},
        {"server/index.js": "import x from './deep/x.js'\n", "server/deep/x.js": ""},
        "server/deep/x.js",
    ),
    "a folder with a package": (
        {"command": "node", "args": ["server"]},
        {"server/package.json": '{"main": "dist/run.js"}', "server/dist/run.js": ""},
        "server/dist/run.js",
    ),
    "a script of a package": (
        {"command": "npm", "args": ["--prefix", "server", "run", "serve"]},
        {"server/package.json": '{"scripts":{"serve":"node dist/run.js"}}', "server/dist/run.js": ""},
        "server/dist/run.js",
    ),
    "a target of a Makefile": (
        {"command": "make", "args": ["serve"]},
        {"Makefile": "lint:\n\truff check\nserve:\n\tpython tools/serve.py\n", "tools/serve.py": ""},
        "tools/serve.py",
    ),
}


def write(folder: Path, server: dict[str, Any], files: dict[str, str]) -> None:
    (folder / ".git").mkdir()
    (folder / ".mcp.json").write_text(json.dumps({"mcpServers": {"x": server}}))
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


@pytest.mark.parametrize("form", FORMS)
def test_changing_what_a_server_runs_ends_trust(tmp_path: Path, form: str) -> None:
    server, files, changed = FORMS[form]
    write(tmp_path, server, files)
    before, (defined,) = hash_of(str(tmp_path)), read_project_file(str(tmp_path), {}).servers
    assert defined.is_as_defined()
    (tmp_path / changed).write_text("evil")
    assert hash_of(str(tmp_path)) != before
    assert not defined.is_as_defined()


def test_what_a_server_does_not_start_can_change(tmp_path: Path) -> None:
    lint = "import lint_helper\n"
    files = {"Makefile": "serve:\n\tsh run.sh\nlint:\n\tpython lint.py\n", "run.sh": "exit\n", "lint.py": lint}
    write(tmp_path, {"command": "make", "args": ["serve", "docs"]}, {**files, "docs/conf.py": "", "src/app.py": ""})
    (defined,) = read_project_file(str(tmp_path), {}).servers
    assert [os.path.relpath(path, tmp_path) for path in defined.files()] == ["Makefile", "run.sh"]


def test_folders_outside_of_the_repository_are_not_searched(tmp_path: Path) -> None:
    (tmp_path / "repo").mkdir()
    (tmp_path / "thing.py").write_text("")
    write(tmp_path / "repo", {"command": "python", "args": ["server.py", ".."]}, {"server.py": "import thing\n"})
    (defined,) = read_project_file(str(tmp_path / "repo"), {}).servers
    assert [os.path.relpath(path, tmp_path) for path in defined.files()] == ["repo/server.py"]
