"""Questions of MCP servers in the real terminal: shown with their fields, answered or declined by a command."""

import sys

import pytest

from tests.harness.home import Home
from tests.harness.scripts import Reply
from tests.harness.terminal import Tmux
from tests.tools.mcp.servers import MODULES


@pytest.mark.slow
def test_a_question_is_answered_or_declined(home: Home) -> None:
    order: Reply = {"calls": [{"name": "mcp__one__order", "args": {}}]}
    words = [f"--env={name}={value}" for name, value in MODULES.items()]
    home.script(order, {"text": "First order."}, order, {"text": "Second order."})
    added = home.run("mcp", "add", "one", *words, "--", sys.executable, "-m", "tests.harness.mcp_server")
    assert added.code == 0
    with Tmux(home, "--approve", "all", columns=100, rows=60) as terminal:
        terminal.wait_for("(shift-tab)")
        terminal.enter("order something")
        screen = terminal.wait_for("mcp:one asks: What would you like?")
        assert "colour (string)" in screen
        terminal.enter("/answer size=big colour=red")
        terminal.wait_for("size must be of type integer")
        terminal.enter("/answer size=4 colour=red")
        terminal.wait_for("'size': 4, 'colour': 'red'")
        terminal.wait_for("First order.")
        terminal.enter("order again")
        terminal.wait_until(lambda text: text.count("What would you like?") >= 2)
        terminal.enter("/decline")
        terminal.wait_for("Second order.")
