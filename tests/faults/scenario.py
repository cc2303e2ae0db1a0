"""One scenario on disk: a folder with a configuration, a scripted model, a workspace and what a driver received.

Invariants: each run of the driver is a real process over the same state directory; the offline checker judges what it
leaves.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from buddy.approvals.digest import nonce_of
from buddy.protocol.envelopes import Event
from buddy.protocol.events import AssistantMessage
from buddy.sessions.state import SessionFold
from buddy.targets import orphans
from tests.faults.driver import ENDLESS, FOLD, SESSION, received_events
from tests.harness.checker import Received, Recorded, check
from tests.harness.files import contents_of, read_ledger
from tests.harness.logs import read_shared, read_state_dir
from tests.harness.processes import BUDDY, CANARY, Finished, program_environment, run
from tests.harness.scripts import MARK, shell_call, write_config, write_script

MESSAGES = ("build", "wait", "chat")

_SHOW = 'echo "the key is $CANARY_API_KEY"'


def _write(path: str, content: str) -> dict[str, object]:
    return {"name": "write_file", "args": {"path": path, "content": content}}


SCRIPT: dict[str, object] = {
    "on": [
        {
            "match": "^build$",
            "replies": [
                {
                    "text": "First I look and write.",
                    "calls": [shell_call(f"{MARK}; {_SHOW}"), _write("notes.txt", "one\n")],
                },
                {
                    "text": "Then I read.",
                    "calls": [{"name": "read_file", "args": {"path": "notes.txt"}}, shell_call(MARK)],
                },
                {
                    "text": "Some calls are wrong.",
                    "calls": [{"name": "no_such_tool", "args": {}}, _write("a/b.txt", "two\n")],
                },
                {"text": "It fails.", "calls": [shell_call(f"{MARK}; exit 3")]},
                {"thinking": "All is there.", "text": "Everything is built as you asked."},
            ],
        },
        {
            "match": "^wait$",
            "replies": [
                {
                    "text": "I wait.",
                    "calls": [
                        shell_call(f"{MARK}; trap '' TERM; echo {ENDLESS}; sleep 600"),
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


class Scenario:
    """With `log_url`, its processes use a shared log."""

    def __init__(self, folder: Path, script: dict[str, object] = SCRIPT, log_url: str = "") -> None:
        self.folder = folder
        self.log_url = log_url
        self.workspace = folder / "workspace"
        self.state_dir = folder / "state"
        self.workspace.mkdir(parents=True)
        self.config = write_config(folder / "buddy.toml", write_script(folder, script))

    def drive(self, *messages: str, fault: str = "", listing: Path | None = None) -> Finished:
        """Run the driver once."""
        command = [sys.executable, "-m", "tests.faults.driver", str(self.folder), *messages]
        return run(command, cwd=self.folder, env=self.environment(fault, listing))

    def command(self, *arguments: str) -> list[str]:
        """A `buddy` command over this scenario's files."""
        places = ("--config", str(self.config), "--state-dir", str(self.state_dir), "-C", str(self.workspace))
        return [*BUDDY, *arguments, *places]

    def buddy(self, *arguments: str, fault: str = "", listing: Path | None = None) -> Finished:
        """Run a `buddy` command to its end."""
        return run(self.command(*arguments), cwd=self.folder, env=self.environment(fault, listing))

    def environment(self, fault: str = "", listing: Path | None = None) -> dict[str, str]:
        """With this fault armed, or with the boundaries that are passed listed in a file."""
        log = str(listing) if listing else ""
        return program_environment(
            HOME=str(self.folder), BUDDY_FAULT=fault, BUDDY_FAULT_LOG=log, BUDDY_LOG=self.log_url
        )

    async def recorded(self, *, complete: bool = True) -> Recorded:
        log = await (read_shared(self.log_url) if self.log_url else read_state_dir(self.state_dir))
        session_id = (self.folder / SESSION).read_text()
        fold = self.folder / FOLD
        live = {session_id: msgspec.json.decode(fold.read_bytes(), type=SessionFold)} if fold.exists() else {}
        received = Received(session_id, 0, received_events(self.folder), to_end=complete)
        return Recorded(
            log,
            (received,),
            read_ledger(self.workspace),
            live if complete else {},
            (CANARY,),
            contents_of(self.state_dir),
            complete,
        )

    async def violations(self) -> list[str]:
        """What the checker finds, and every process that was left behind."""
        recorded = await self.recorded()
        return [*check(recorded), *left_behind(recorded)]


def left_behind(recorded: Recorded) -> list[str]:
    """The processes that still carry the nonce of a call of these sessions; they are reported and killed."""
    nonces = [
        nonce_of(session_id, call_id) for session_id, events in recorded.log.items() for call_id in call_ids(events)
    ]
    return [f"{orphans.kill(nonce)} processes of {nonce} were left behind" for nonce in nonces if orphans.find(nonce)]


def call_ids(events: Sequence[Event]) -> list[str]:
    bodies = [event.body() for event in events]
    return [item.call_id for body in bodies if isinstance(body, AssistantMessage) for item in body.tool_calls]
