"""`buddy demo`: a complete session with nothing configured, shown as it happens and checked afterwards.

A first process works until it is killed in the middle of a tool call; a second one brings the session to its outcome;
then the log is read by a third and compared with what was seen. Invariants: the demo is a success only if every
expectation of `checks` was met; all it makes is in one temporary directory, kept only where it failed.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Self

from buddy.cli.demo.checks import Evidence, expectations
from buddy.cli.demo.story import Story
from buddy.cli.options import Options
from buddy.protocol.envelopes import Event, parse_incoming
from buddy.terminal.style import style_of

PATIENCE = 30.0
PAUSE = 0.12


def demo(options: Options) -> int:
    if options.child:
        from buddy.cli.demo.child import work

        return work(Path(options.child), options.resume, options.after)
    directory = Path(tempfile.mkdtemp(prefix="buddy-demo-"))
    pause = 0.0 if options.fast or not sys.stdout.isatty() else PAUSE
    try:
        succeeded = _perform(directory, Story(style_of(sys.stdout, os.environ), pause))
    except (KeyboardInterrupt, BrokenPipeError):
        shutil.rmtree(directory, ignore_errors=True)
        raise
    if succeeded:
        shutil.rmtree(directory, ignore_errors=True)
        return 0
    print(f"error: the demo failed; what it made is in {directory}", file=sys.stderr)
    return 1


def _perform(directory: Path, story: Story) -> bool:
    started = time.monotonic()
    workspace = directory / "work"
    workspace.mkdir()
    (workspace / "orders.txt").write_text("apples 3\npears 4\nplums 5\n", encoding="ascii")
    story.begin(directory)
    evidence = Evidence(workspace)
    _until_killed(directory, story, evidence)
    if evidence.killed:
        _until_complete(directory, story, evidence)
        evidence.log = _exported(directory, evidence.session_id)
    results = expectations(evidence)
    story.verdict(results, time.monotonic() - started)
    return all(met for _, met in results)


def _until_killed(directory: Path, story: Story, evidence: Evidence) -> None:
    """The first process. It is killed once the slow command says that it has done its deed."""
    with _Process(directory) as process:
        for event in process.events(evidence.first):
            story.show(event)
            evidence.session_id = event.session_id
            if event.type == "tool_output" and (evidence.workspace / "outbox").exists():
                process.kill()
                evidence.killed = process.wait() == -signal.SIGKILL
                story.killed(process.pid)
                return


def _until_complete(directory: Path, story: Story, evidence: Evidence) -> None:
    """The second process knows nothing but the state directory, and its client where the first one's had got to."""
    seen = evidence.first[-1].seq
    with _Process(directory, "--resume", evidence.session_id, "--after", str(seen)) as process:
        story.resumed(process.pid)
        for event in process.events(evidence.second):
            story.show(event)
        evidence.ended = process.wait() == 0


def _exported(directory: Path, session_id: str) -> list[bytes]:
    command = [*BUDDY, "session", "export", session_id, "--state-dir", str(directory / "state")]
    done = subprocess.run(command, stdout=subprocess.PIPE, timeout=PATIENCE, check=False, env=_environment())
    return done.stdout.splitlines() if done.returncode == 0 else []


class _Process:
    """A real `buddy` that works in the demo's directory and writes every event it receives on a line."""

    def __init__(self, directory: Path, *arguments: str) -> None:
        command = [*BUDDY, "demo", "--child", str(directory), *arguments]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, env=_environment())
        self.pid = self._process.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        self.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def events(self, seen: list[Event]) -> Iterator[Event]:
        """What its client received, as it arrives; collected in `seen`."""
        for line in self._process.stdout or ():
            match parse_incoming(line.rstrip(b"\n")):
                case Event() as event:
                    seen.append(event)
                    yield event
                case _:
                    continue

    def kill(self) -> None:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGKILL)

    def wait(self) -> int:
        return self._process.wait(PATIENCE)


BUDDY = (sys.executable, "-m", "buddy")


def _environment() -> dict[str, str]:
    """Without this user's settings: the demo must not depend on them, or touch what they name."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("BUDDY_", "AGENT_"))}
