"""Stopping what is active, deciding what it asks, and limiting its time."""

from buddy.terminal.approval_prompt import ApprovalAnswer
from buddy.terminal.current_session import CurrentSession
from buddy.terminal.local_programs import LocalPrograms
from buddy.terminal.run_timeouts import RunTimeouts
from buddy.terminal.tasks import BackgroundTasks


class RunControl:
    def __init__(self, session: CurrentSession, programs: LocalPrograms, tasks: BackgroundTasks) -> None:
        self._session = session
        self._programs = programs
        self._tasks = tasks
        self._timeouts = RunTimeouts()
        self._stopping = ""

    def interrupt(self) -> bool:
        """Stop the user's program, else the active run; False if there is neither, or the run is already stopping."""
        if self._programs.interrupt():
            return True
        active = self._session.active
        if active is None:
            return False
        is_first, self._stopping = active != self._stopping, active
        self._tasks.request(self._session.cancel())
        return is_first

    def decide(self, approval_id: str, answer: ApprovalAnswer) -> None:
        self._tasks.request(self._session.decide(approval_id, answer))

    def set_timeout(self, session_id: str, run_id: str, seconds: float) -> None:
        def cancel() -> None:
            self._tasks.request(self._session.client.cancel(session_id, run_id, "timeout"))

        self._timeouts.set(run_id, seconds, cancel)

    def close(self) -> None:
        self._timeouts.clear()
