"""Answers what Droid asks: permission requests with our decisions, questions to the user with "decide yourself".

Invariants: a request is answered once, and only with what was decided; the reason for a denial reaches the model as a
message, because Droid itself stops at a denial without passing the reason on.
"""

from collections.abc import Awaitable, Callable

import msgspec

from buddy.backends.droid import wire
from buddy.backends.droid.event_mapper import DroidEventMapper
from buddy.backends.droid.permissions import CombinedAnswer
from buddy.backends.droid.rpc import DroidRpc
from buddy.backends.external.contract import AgentEvent, Message, PermissionAnswer, SystemNote

RequestId = str | int | None


class DroidQuestions:
    """`publish` reports an event; `plan` is whether the session only plans."""

    def __init__(
        self, rpc: DroidRpc, mapper: DroidEventMapper, publish: Callable[[AgentEvent], Awaitable[None]], *, plan: bool
    ) -> None:
        self._rpc = rpc
        self._mapper = mapper
        self._publish = publish
        self._plan = plan
        self._pending: set[RequestId] = set()
        """Droid's requests that wait for an answer."""
        self._undelivered: list[str] = []
        """Messages for the model that must be sent before the work is over."""

    async def take(self, envelope: wire.Envelope) -> None:
        try:
            match envelope.method:
                case "droid.request_permission":
                    asked = msgspec.json.decode(envelope.params, type=wire.PermissionRequest)
                    await self._ask(envelope.id, asked.tool_uses)
                case "droid.ask_user":
                    await self._decline(envelope)
                case _:
                    self._rpc.write(wire.refusal(envelope.id, envelope.method))
        except ValueError:
            # An invalid request is denied, and still answered: Droid would wait forever.
            self._rpc.write(wire.response(envelope.id, {"selectedOption": "cancel", "cancelled": True, "answers": []}))
            raise

    def resolve(self, request_id: str) -> None:
        """Droid reports that the request was settled without us."""
        self._pending.discard(request_id)

    def forget_pending(self) -> None:
        self._pending.clear()

    def drop_messages(self) -> None:
        self._undelivered = []

    def pop_messages(self) -> str:
        """The undelivered messages as one; empty if there are none."""
        text, self._undelivered = "\n".join(self._undelivered), []
        return text

    async def _decline(self, envelope: wire.Envelope) -> None:
        """Nobody can answer a question during a run."""
        asked = msgspec.json.decode(envelope.params, type=wire.Questions)
        questions = " / ".join(query.question for query in asked.questions)
        await self._publish(SystemNote(f"asked a question and was asked to decide for itself: {questions}"))
        self._rpc.write(wire.response(envelope.id, {"cancelled": True, "answers": []}))
        self._undelivered.append(
            "Nobody can answer questions while you work. Decide for yourself where you can; "
            "otherwise end your turn with the question as your answer."
        )

    async def _ask(self, request_id: RequestId, asked: list[wire.Confirmation]) -> None:
        if not asked:
            self._rpc.write(wire.response(request_id, {"selectedOption": "cancel"}))
            return
        if self._plan and all(one.confirmation_type == "exit_spec_mode" for one in asked):
            await self._keep_planning(request_id, asked)
            return
        self._pending.add(request_id)

        async def answer(decided: PermissionAnswer) -> None:
            await self._answer(request_id, decided)

        combined = CombinedAnswer(answer)
        events: list[AgentEvent] = []
        for confirmation in asked:
            call, started = self._mapper.announce(confirmation.tool_use)
            events += [*started, *combined.questions(call, confirmation)]
        for event in events:
            await self._publish(event)

    async def _keep_planning(self, request_id: RequestId, asked: list[wire.Confirmation]) -> None:
        """A planning session never leaves spec mode; the plan is the answer. All else is asked, and denied by rule."""
        for confirmation in asked:
            call, started = self._mapper.announce(confirmation.tool_use)
            for event in started:
                await self._publish(event)
            plan = confirmation.details.get("plan")
            if isinstance(plan, str):
                self._mapper.last_text = plan
                await self._publish(Message(plan, f"plan-{call.call_id}"))
        self._rpc.write(wire.response(request_id, {"selectedOption": "cancel"}))

    async def _answer(self, request_id: RequestId, decided: PermissionAnswer) -> None:
        if request_id not in self._pending:
            return  # Droid no longer waits: it was interrupted, or has exited
        self._pending.discard(request_id)
        if decided.approved and not self._plan:
            self._rpc.write(wire.response(request_id, {"selectedOption": "proceed_once"}))
        else:
            result = {"selectedOption": "cancel"}
            if decided.reason:
                result["comment"] = decided.reason
                self._undelivered.append(f"That was not allowed: {decided.reason}. Continue without it.")
            self._rpc.write(wire.response(request_id, result))
        await self._rpc.drain()
