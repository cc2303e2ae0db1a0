"""Complete screens, compared with the files in `tests/terminal/goldens/NAME-80x24.txt`.

Invariants: what differs from run to run (ids, times, counts, the spinner) is normalized before screens are compared.
`BUDDY_GOLDENS=write` rewrites the files; review them before committing.
"""

import os
import re
import time
from pathlib import Path

from tests.harness.processes import PATIENCE
from tests.harness.terminal import LOOK_SECONDS, Tmux

SCROLLED = 4
GOLDENS = Path(__file__).with_name("goldens")

_VOLATILE = (
    (re.compile(r"sess_[0-9A-Z]{26}"), "sess_" + "X" * 26),
    (re.compile(r"/b-\w{8}/"), "/b-xxxxxxxx/"),
    (re.compile(r"buddy-[0-9a-f]{4}\b"), "buddy-xxxx"),
    (re.compile(r"[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏]"), "⠋"),
    (re.compile(r"\b\d+(\.\d)?s\b"), "0s"),
    # How much of the activity line fits depends on how long the run takes.
    (re.compile(r"(?m)^(⠋ .{16}).*$"), r"\1"),
    (re.compile(r"[\d.]+k?\s+in,\s+[\d.]+k?\s+out"), "1k in, 1k out"),
)


def normal(screen: str) -> str:
    for pattern, instead in _VOLATILE:
        screen = pattern.sub(instead, screen)
    return screen


def alike(shown: str, wanted: str) -> bool:
    """How far a screen has scrolled after an approval depends on what was drawn together: its top may differ."""
    short, long = sorted((shown, wanted), key=len)
    return long.endswith(short) and long.count("\n") - short.count("\n") <= SCROLLED


def check(terminal: Tmux, name: str) -> None:
    """Wait until the screen is as it should be; fail with what it is instead."""
    path = GOLDENS / f"{name}-{terminal.columns}x{terminal.rows}.txt"
    if os.environ.get("BUDDY_GOLDENS") == "write":
        time.sleep(1.0)  # let drawing finish
        GOLDENS.mkdir(exist_ok=True)
        path.write_text(normal(terminal.screen()) + "\n", encoding="utf-8")
    wanted = path.read_text(encoding="utf-8").rstrip("\n")
    deadline = time.monotonic() + PATIENCE
    while not alike(shown := normal(terminal.screen()), wanted) and time.monotonic() < deadline:
        time.sleep(LOOK_SECONDS)  # nothing signals that another program has drawn
    assert alike(shown, wanted), f"not as in {path.name}:\n{shown}"
