"""One scenario on disk: a folder with a configuration, a scripted model, a workspace and what a driver received.

Invariants: every life of the driver is a real process over the same state directory; what it left is judged by
the one checker.
"""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from buddy import errors
from buddy.approvals.digest import nonce_of
from buddy.log.contract import Log
from buddy.log.sqlite import SqliteLog
from buddy.protocol.envelopes import Event
from buddy.protocol.events import AssistantMessage
from buddy.sessions.state import SessionFold
from buddy.targets import orphans
from checker import Received, Recorded, check
from faults.driver import ENDLESS, FOLD, SESSION, received_events

SECRET = "canary-4f9d2c71b8e6a035"
MESSAGES = ("build", "wait", "chat")
LIFE_SECONDS = 60

_MARK = 'echo "$BUDDY_CALL" >> ledger'
_SHOW = 'echo "the key is $CANARY_API_KEY"'


def _shell(command: str) -> dict[str, object]:
    return {"name": "run_shell", "args": {"command": command}}


def _write(path: str, content: str) -> dict[str, object]:
    return {"name": "write_file", "args": {"path": path, "content": content}}


SCRIPT: dict[str, object] = {
    "on": [
        {
            "match": "^build$",
            "replies": [
                {
                    "text": "First I look and write.",
                    "calls": [_shell(f"{_MARK}; {_SHOW}"), _write("notes.txt", "one\n")],
                },
                {
                    "text": "Then I read.",
                    "calls": [{"name": "read_file", "args": {"path": "notes.txt"}}, _shell(_MARK)],
                },
                {
                    "text": "Some calls are wrong.",
                    "calls": [{"name": "no_such_tool", "args": {}}, _write("a/b.txt", "two\n")],
                },
                {"text": "It fails.", "calls": [_shell(f"{_MARK}; exit 3")]},
                {"thinking": "All is there.", "text": "Everything is built as you asked."},
            ],
        },
        {
            "match": "^wait$",
            "replies": [
                {
                    "text": "I wait.",
                    "calls": [
                        _shell(f"{_MARK}; trap '' TERM; echo {ENDLESS}; sleep 600"),
                        _write("late.txt", "never\n"),
                    ],
                },
                {"text": "The waiting is over."},
            ],
        },
    ],
    "replies": [],
    "echo": True,
}


def child_environment(**more: str) -> dict[str, str]:
    """For programs that a test starts: they find what it finds, hold the canary, and have only the given fault."""
    places = (Path(__file__).parent.parent, Path(errors.__file__).parent.parent)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("BUDDY_", "AGENT_", "XDG_"))}
    return {**kept, "PYTHONPATH": os.pathsep.join(map(str, places)), "CANARY_API_KEY": SECRET, **more}


class Scenario:
    def __init__(self, folder: Path, script: dict[str, object] = SCRIPT) -> None:
        self.folder = folder
        self.workspace = folder / "workspace"
        self.state_dir = folder / "state"
        self.config = folder / "buddy.toml"
        self.workspace.mkdir(parents=True)
        (folder / "script.json").write_text(json.dumps(script))
        self.config.write_text('[agent]\nmodel = "play"\n[models.play]\napi = "scripted"\nscript = "script.json"\n')

    def live(
        self, *messages: str, fault: str = "", listing: Path | None = None
    ) -> "subprocess.CompletedProcess[bytes]":
        """One life of the driver."""
        environment = child_environment(
            HOME=str(self.folder), BUDDY_FAULT=fault, BUDDY_FAULT_LOG=str(listing) if listing else ""
        )
        return subprocess.run(
            [sys.executable, "-m", "faults.driver", str(self.folder), *messages],
            env=environment,
            capture_output=True,
            timeout=LIFE_SECONDS,
            check=False,
        )

    def command(self, *arguments: str) -> list[str]:
        """A `buddy` command over this scenario's files."""
        places = ("--config", str(self.config), "--state-dir", str(self.state_dir), "-C", str(self.workspace))
        return [sys.executable, "-m", "buddy", *arguments, *places]

    def buddy(self, *arguments: str, fault: str = "", listing: str = "") -> "subprocess.CompletedProcess[bytes]":
        """Run a `buddy` command to its end."""
        environment = child_environment(HOME=str(self.folder), BUDDY_FAULT=fault, BUDDY_FAULT_LOG=listing)
        return subprocess.run(
            self.command(*arguments), env=environment, capture_output=True, timeout=LIFE_SECONDS, check=False
        )

    def ledger(self) -> list[str]:
        path = self.workspace / "ledger"
        return path.read_text().split() if path.exists() else []

    async def recorded(self, *, complete: bool = True) -> Recorded:
        log = await read_log(self.state_dir)
        session_id = (self.folder / SESSION).read_text()
        fold = self.folder / FOLD
        live = {session_id: msgspec.json.decode(fold.read_bytes(), type=SessionFold)} if fold.exists() else {}
        received = Received(session_id, 0, received_events(self.folder), to_end=complete)
        return Recorded(
            log,
            (received,),
            self.ledger(),
            live if complete else {},
            (SECRET,),
            [path.read_bytes() for path in self.state_dir.rglob("*") if path.is_file()],
            complete,
        )

    async def violations(self) -> list[str]:
        """What the checker finds, and every process that was left behind."""
        recorded = await self.recorded()
        return [*check(recorded), *left_behind(recorded)]


def left_behind(recorded: Recorded) -> list[str]:
    """The processes that still carry the nonce of a call of these sessions; told, and then ended."""
    nonces = [
        nonce_of(session_id, call_id) for session_id, events in recorded.log.items() for call_id in call_ids(events)
    ]
    return [f"{orphans.kill(nonce)} processes of {nonce} were left behind" for nonce in nonces if orphans.find(nonce)]


def call_ids(events: Sequence[Event]) -> list[str]:
    bodies = [event.body() for event in events]
    return [item.call_id for body in bodies if isinstance(body, AssistantMessage) for item in body.tool_calls]


async def read_log(state_dir: Path) -> dict[str, list[Event]]:
    """Every session's events, as they are on disk."""
    log = SqliteLog.open(state_dir, lambda: 0)
    try:
        return {record.session_id: await read_all(log, record.session_id) for record in await log.newest(1000)}
    finally:
        await log.close()


async def read_all(log: Log, session_id: str) -> list[Event]:
    found: list[Event] = []
    while page := await log.read(session_id, found[-1].seq if found else 0):
        found += page
    return found
