"""What a compaction keeps word for word: the user's messages, acceptance criteria, effects, and files touched.

Invariants: it is a pure fold of the session's events and is rendered again by each compaction, so nothing erodes from
one to the next; if space is short, messages that state a constraint come first, then newer before older ones. No
approval can be open here: a compaction waits until every call has its result.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import islice

import msgspec
from msgspec import Struct

from buddy.long_json import LONG
from buddy.protocol.actors import RuntimeActor
from buddy.protocol.events import (
    AcceptanceResult,
    ApprovalExpired,
    ApprovalPolicyChanged,
    ApprovalReceived,
    ApprovalRequired,
    AssistantMessage,
    AssistantRestart,
    AssistantToken,
    CancelScheduled,
    ChildFinished,
    ChildStarted,
    EventBody,
    FilesRestored,
    HookFinished,
    Informational,
    ModelRequest,
    ModelSwitched,
    QuestionAnswered,
    QuestionAsked,
    RunCancelling,
    RunComplete,
    RunStarted,
    SessionCompacted,
    SessionForked,
    SessionStarted,
    ThinkingToken,
    ToolCall,
    ToolClaimed,
    ToolResult,
    Usage,
    UserMessage,
)
from buddy.protocol.shapes import Criterion, ToolCallItem
from buddy.steps import Steps, parts

SEPARATOR = "\n\n--- what happened, in short ---\n"
ARGUMENTS = 200
OUTCOME = 80
SKILLS_USED = "Skills whose instructions you loaded; load one again before you go on with it"
_SKILL_NAME = re.compile(r'"name"\s*:\s*"([\w.-]+)"')
FILES = 100
_SHARES = (0.6, 0.3)
_RULE = (
    r"\b(must|never|always|don't|do not|only|without|keep|require[ds]?|constraint|make sure|remember|important|"
    r"not allowed|forbidden|should|avoid|at least|at most|no more than)\b"
)


_UNPINNED = frozenset({AssistantToken, ThinkingToken, ModelRequest, Usage})  # most events


class PinnedText(Struct, frozen=True):
    seq: int
    text: str


class PinnedParts(Struct, frozen=True):
    """Messages, effects, and the seqs of files and skills."""

    said: list[PinnedText]
    effects: list[PinnedText]
    files: dict[str, int]
    skills: dict[str, int]


class Pins:
    """Feed it events in order; `text` is the pinned part of a summary."""

    def __init__(self) -> None:
        self._said: list[PinnedText] = []
        self._effects: list[PinnedText] = []
        self._files: dict[str, int] = {}
        self._skills: dict[str, int] = {}
        self._criteria: tuple[Criterion, ...] = ()
        self._calls: dict[str, ToolCallItem] = {}
        self._outlines: dict[str, dict[str, object]] = {}
        self._claimed: set[str] = set()
        self._asked_at = 0
        self._first_seq = 0
        self._carried = ""

    def apply(self, seq: int, body: EventBody) -> None:
        self._first_seq = self._first_seq or seq
        if type(body) in _UNPINNED:
            return
        match body:
            case AssistantMessage():
                self._asked_at = seq
                for call in body.tool_calls:
                    self._calls[call.call_id] = call
            case ToolCall() | ToolClaimed():
                self._begin(body)
            case ToolResult():
                self._finish(body)
            case UserMessage() | SessionCompacted():
                self._pin(seq, body)
            case RunStarted():
                self._criteria = body.options.acceptance_criteria
            case RunComplete():
                self._criteria = ()
                self._calls.clear()
                self._outlines.clear()
                self._claimed.clear()
            case (
                Informational()
                | AssistantToken()
                | ThinkingToken()
                | ModelRequest()
                | Usage()
                | SessionStarted()
                | ApprovalRequired()
                | ApprovalReceived()
                | RunCancelling()
                | CancelScheduled()
                | ChildStarted()
                | ChildFinished()
                | AssistantRestart()
                | ApprovalExpired()
                | ApprovalPolicyChanged()
                | ModelSwitched()
                | SessionForked()
                | FilesRestored()
                | AcceptanceResult()
                | HookFinished()
                | QuestionAsked()
                | QuestionAnswered()
            ):
                pass  # nothing to pin

    def parts(self) -> "PinnedParts":
        """What was pinned so far."""
        return PinnedParts(self._said, self._effects, self._files, self._skills)

    def prepend(self, earlier: "PinnedParts") -> None:
        """Add what was pinned before our first event; no run was active then."""
        self._said = [*earlier.said, *self._said]
        self._effects = [*earlier.effects, *self._effects]
        self._files = {path: seq for path, seq in earlier.files.items() if path not in self._files} | self._files
        self._skills = earlier.skills | self._skills

    @property
    def is_pruned(self) -> bool:
        """Whether the log had events before the first one that was seen."""
        return self._first_seq > 1

    def text(self, through: int, count: Callable[[str], int], room: int, *, but: int = 0) -> Steps[str]:
        """Everything up to `through`, within `room` tokens; the message `but` stays in the history itself."""
        said = [message for message in self._said if message.seq <= through and message.seq != but]
        first = self._said[0].seq if self._said else 0
        effects = [f"- {line}" for line in _count_repeats(effect for effect in self._effects if effect.seq <= through)]
        files = [path for path, seq in self._files.items() if seq <= through]
        messages = yield from _messages(said, first, count, int(room * _SHARES[0]))
        sections = [
            self._carried,
            _section("The user said, word for word:", messages),
            _section("To be accepted:", [f"- {one.id}: `{one.check}` exits {one.exit_code}" for one in self._criteria]),
            _section("Already done; do not do it again:", _newest(effects, count, int(room * _SHARES[1]))),
            _section("Files touched:", [", ".join(files[-FILES:])] if files else []),
            _section(f"{SKILLS_USED}:", [", ".join(name for name, seq in self._skills.items() if seq <= through)]),
        ]
        return "\n\n".join(section for section in sections if section)

    def _pin(self, seq: int, body: UserMessage | SessionCompacted) -> None:
        if isinstance(body, SessionCompacted):
            if not body.undo and self.is_pruned:
                self._carry(body)
        elif body.by not in (RuntimeActor.ACCEPTANCE, RuntimeActor.HOOK):
            self._said.append(PinnedText(seq, body.text))

    def _finish(self, result: ToolResult) -> None:
        known = self._calls.get(result.call_id or "")
        if known is not None and known.name == "skill" and not result.is_error:
            self._skills |= dict.fromkeys(_SKILL_NAME.findall(known.arguments)[:1], self._asked_at)
        call = known if result.call_id in self._claimed else None
        if call is None:
            return
        arguments = self._arguments(call)
        shown = _short(msgspec.json.encode(arguments).decode() if arguments else call.arguments, ARGUMENTS)
        failure = result.structured_error
        outcome = f"{failure.type}: {_short(failure.message, OUTCOME)}" if failure else "done"
        self._effects.append(PinnedText(self._asked_at, f"{call.name} {shown} → {outcome}"))
        path = arguments.get("path")
        if isinstance(path, str) and not result.is_error:
            self._files.pop(path, None)
            self._files[path] = self._asked_at

    def _arguments(self, call: ToolCallItem) -> dict[str, object]:
        if len(call.arguments) > LONG:
            return self._outlines.get(call.call_id, {})
        try:
            return _arguments.decode(call.arguments)
        except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
            return {}  # redaction left no valid JSON

    def _begin(self, body: ToolCall | ToolClaimed) -> None:
        if isinstance(body, ToolClaimed):
            self._claimed.add(body.call_id)
            return
        call = self._calls.get(body.call_id or "")
        if call is not None and len(call.arguments) > LONG and body.args.keys() != {"raw"}:
            # Only their beginnings: decoding them again would take a while.
            entries = islice(body.args.items(), ARGUMENTS)
            self._outlines[call.call_id] = {name: _beginning(value) for name, value in entries}

    def _carry(self, compaction: SessionCompacted) -> None:
        # The beginning of the log was pruned, so its pinned part survives only in the summary.
        self._carried = compaction.summary.rpartition(SEPARATOR)[0].partition("\n\n")[2]
        through = compaction.through_seq
        self._said = [message for message in self._said if message.seq > through]
        self._effects = [effect for effect in self._effects if effect.seq > through]
        self._files = {path: seq for path, seq in self._files.items() if seq > through}


def _beginning(value: object) -> object:
    if isinstance(value, str):
        return value[: 2 * ARGUMENTS]
    return "…" if isinstance(value, dict | list) else value


def _messages(said: list[PinnedText], first: int, count: Callable[[str], int], room: int) -> Steps[list[str]]:
    """The messages in order; the first one and those that state a rule are chosen first, then the newest."""
    ranked = sorted(said, key=lambda message: (_states_rule(message, first), message.seq), reverse=True)
    chosen: dict[int, str] = {}
    for message in ranked:
        text = message.text
        size = yield from _size(text, count)
        if size > room:
            text = "\n".join((yield from _rules(text))) or _short(text, ARGUMENTS)
            size = yield from _size(text, count)
        if size <= room:
            chosen[message.seq] = f"<user-message>\n{text}\n</user-message>"
            room -= size
    left_out = len(said) - len(chosen)
    note = [f"({left_out} more messages are in the log)"] if left_out else []
    return [*note, *(chosen[seq] for seq in sorted(chosen))]


def _size(text: str, count: Callable[[str], int]) -> Steps[int]:
    size = 0
    for part in parts(text, LONG):
        size += count(part)
        yield
    return size


def _states_rule(message: PinnedText, first: int) -> bool:
    return message.seq == first or re.search(_RULE, message.text, re.IGNORECASE) is not None


def _rules(text: str) -> Steps[list[str]]:
    """The lines of a long text that state a rule, with a mark where others are missing."""
    found: list[str] = []
    for number, line in enumerate(text.splitlines()):
        if re.search(_RULE, line, re.IGNORECASE):
            found.append(f"… {_short(line, 2 * ARGUMENTS)}")
        if number % 100 == 0:
            yield
    return found


def _newest(lines: list[str], count: Callable[[str], int], room: int) -> list[str]:
    kept: list[str] = []
    for line in reversed(lines):
        room -= count(line)
        if room < 0:
            kept.append(f"- ({len(lines) - len(kept)} earlier ones are in the log)")
            break
        kept.append(line)
    return kept[::-1]


def _count_repeats(effects: Iterable[PinnedText]) -> Iterator[str]:
    """Each line once, at its last position, with how often it occurred."""
    counts: dict[str, int] = {}
    for effect in effects:
        counts[effect.text] = counts.pop(effect.text, 0) + 1
    for line, times in counts.items():
        yield line if times == 1 else f"{line} ({times} times)"


def _section(title: str, lines: list[str]) -> str:
    return "\n".join([title, *lines]) if any(lines) else ""


def _short(text: str, most: int) -> str:
    head = text[: 16 * most]
    flat = " ".join(head.split())
    return flat if len(flat) <= most and len(head) == len(text) else flat[: most - 1] + "…"


_arguments = msgspec.json.Decoder(dict[str, object])
