"""What a REPL costs that is left open: its share of a core, idle and at an approval that waits.

`python -m bench.waiting [SECONDS]`. A real program in tmux, with a scripted model; the processor time of its process is
read from `/proc/PID/stat` before and after SECONDS (20). Printed, not asserted; the machine decides.
"""

import os
import sys
import tempfile
import time
from pathlib import Path

from tests.harness.home import Home
from tests.harness.scripts import shell
from tests.harness.terminal import Tmux

SETTLE_SECONDS = 3.0


def processor_seconds(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def share(process: int, seconds: float) -> float:
    """The share of a core that a process uses, after a moment in which what it began is finished."""
    time.sleep(SETTLE_SECONDS)
    before = processor_seconds(process)
    time.sleep(seconds)
    return (processor_seconds(process) - before) / seconds


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 20.0
    with tempfile.TemporaryDirectory() as folder:
        home = Home(Path(folder) / "home")
        home.script(shell("touch ran"), {"text": "over"})
        try:
            with Tmux(home) as terminal:
                terminal.wait_for("(shift-tab)")
                process = terminal.process
                print(f"idle                {share(process, seconds):6.2%} of a core", flush=True)
                terminal.enter("go")
                terminal.wait_for("1 Yes")
                print(f"waiting at approval {share(process, seconds):6.2%} of a core")
        finally:
            home.run("daemon", "stop")


if __name__ == "__main__":
    main()
