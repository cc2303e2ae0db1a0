"""What was typed, on disk."""

from tests.harness.home import Home
from tests.harness.terminal import Tmux

CANARY = "Lm9-canary-4fQz7Rk2Xw8Tn"
TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


def test_a_typed_secret_is_not_stored(home: Home) -> None:
    home.env["DEPLOY_TOKEN"] = CANARY
    home.script({"text": "hi"})
    with Tmux(home, columns=160) as terminal:
        terminal.wait_for("(shift-tab)")
        terminal.enter(f"use {CANARY} and {TOKEN} now")
        terminal.wait_for("✓ done")
        terminal.keys("Up")
        terminal.wait_for("> use")
        terminal.keys("C-c", "C-d")
        terminal.wait_for("[ended 0]")
    stored = (home.state / "history").read_text()
    assert "+use [REDACTED" in stored
    assert "now" in stored
    assert CANARY not in stored
    assert TOKEN not in stored
