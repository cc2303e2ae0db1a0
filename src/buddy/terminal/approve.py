"""The question that holds a call: everything that will run, and an answer for each key.

What always holds: what is shown is all that will run, escaped and wrapped; keys that were typed before the question was
there do not answer it; a command that is longer than a page must be shown whole before it can be approved.
"""

from collections.abc import Callable, Sequence

import msgspec
from msgspec import Struct

from buddy.protocol.codes import Scope, Verdict
from buddy.protocol.shapes import ApprovalRequest
from buddy.terminal.blocks import diff_block
from buddy.terminal.escape import escape, escape_all
from buddy.terminal.style import Style
from buddy.terminal.wrap import wrap, wrap_words

PAGE = 64
ROW = 76
SCRIPT = 16
# As long nothing is typed, then keys answer: whoever was in the middle of a word goes on with it.
CALM_SECONDS = 0.6
# How long the shown rule holds when it is granted for a while.
GRANT_SECONDS = 600

# Digests and sizes bind the decision; the command or the diff beside them is what a person reads.
_SILENT = frozenset(
    {"command", "diff", "cwd", "target", "sandbox", "why", "alwaysRule"}
    | {"scripts", "scriptTexts", "scriptsComplete", "sha256", "replaces", "bytes"}
)


class Answer(Struct, frozen=True):
    decision: Verdict
    scope: Scope = "once"
    comment: str | None = None
    seconds: float | None = None


class Approval:
    """One question on the screen. It answers through `decide`, at most once."""

    def __init__(
        self,
        request: ApprovalRequest,
        style: Style,
        decide: Callable[[Answer], None] = lambda _: None,
        write: Callable[[], None] = lambda: None,
        expand: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.request = request
        self.armed = False
        self._style = style
        self._decide = decide
        self._write = write
        self._expand = expand
        self._is_whole = self._length() <= PAGE
        self._answered = False

    @property
    def locks(self) -> bool:
        """Whether keys are answers, and not text."""
        return self.armed and not self._answered

    def block(self, columns: int, *, whole: bool = False) -> str:
        """What would happen, for the scrollback: `whole`, or a page of it that a key continues."""
        style, details = self._style, self.request.details
        inner = max(20, columns - 4)
        lines = [style.yellow(f"┌ {escape(self.request.title)}")]
        body = self._what(inner)
        if len(body) > PAGE and not self._is_whole and not whole:
            body = [*body[:PAGE], style.yellow(f"… {len(body) - PAGE} more lines; press e to see them")]
        lines += [f"{style.yellow('│')} {line}" for line in body]
        for name, value in self._facts():
            lines += [f"{style.yellow('│')} {style.dim(line)}" for line in wrap_words(f"{name}: {value}", inner)]
        lines += [f"{style.yellow('│')} {style.dim(line)}" for line in self._scripts(inner)]
        rule = details.get("alwaysRule")
        if rule is not None:
            text = f'"always" would add: {describe_rule(rule)}'
            lines += [f"{style.yellow('│')} {style.dim(line)}" for line in wrap_words(text, inner)]
        return "\n".join([*lines, style.yellow("└")])

    def lines(self, columns: int) -> list[str]:
        """The answers, right above the input; only while keys are heard."""
        if not self.locks:
            return [self._style.yellow("a decision is needed")]
        answers = [("1", "yes"), ("2", "yes, in this session")] if self._is_whole else [("e", "show all")]
        if self._is_whole and self._has_rule:
            answers += [("3", "always"), ("t", f"{GRANT_SECONDS // 60} min")]
        answers += [("4", "no"), ("5", "no, instead…")]
        return self._packed(answers, columns)

    def _packed(self, answers: Sequence[tuple[str, str]], columns: int) -> list[str]:
        """As many in a line as fit."""
        lines, room = [""], 0
        for key, text in answers:
            size = len(key) + len(text) + 4
            if room + size > columns and room:
                lines, room = [*lines, ""], 0
            lines[-1] += f"{' · ' if room else ''}{self._style.bold(key)} {text}"
            room += size
        return lines

    def press(self, key: str) -> None:
        if not self.locks:
            return
        match key:
            case "e" if not self._is_whole:
                self._is_whole = True
                self._expand("\n".join(self._what(ROW)))
            case "1" | "y" if self._is_whole:
                self.answer(Answer("approve"))
            case "2" if self._is_whole:
                self.answer(Answer("approve", "session"))
            case "3" if self._is_whole and self._has_rule:
                self.answer(Answer("approve", "always"))
            case "t" if self._is_whole and self._has_rule:
                self.answer(Answer("approve", "until", seconds=GRANT_SECONDS))
            case "4" | "n":
                self.answer(Answer("deny"))
            case "5":
                self._write()
            case _:
                pass

    def answer(self, answer: Answer) -> None:
        if not self._answered:
            self._answered = True
            self._decide(answer)

    @property
    def _has_rule(self) -> bool:
        return self.request.details.get("alwaysRule") is not None

    def _length(self) -> int:
        """How many rows it takes on a common terminal."""
        details = self.request.details
        texts = [str(details.get(key) or "") for key in ("command", "diff")]
        return max(sum(1 + len(line) // ROW for line in text.split("\n")) for text in texts)

    def _what(self, width: int) -> list[str]:
        """The command or the diff itself; where there is neither, the summary."""
        details, style = self.request.details, self._style
        if isinstance(command := details.get("command"), str):
            first, *rest = wrap(escape_all(command), width - 2)
            return [f"{style.bold('$')} {style.bold(first)}", *(f"  {style.bold(line)}" for line in rest)]
        if isinstance(diff := details.get("diff"), str) and diff:
            wrapped = "\n".join(wrap(escape_all(diff), width))
            return diff_block(wrapped, style, most=10**9).split("\n")
        return list(wrap_words(escape(self.request.summary), width))

    def _scripts(self, width: int) -> list[str]:
        """The beginnings of the scripts that the command names."""
        texts = msgspec.convert(self.request.details.get("scriptTexts") or {}, dict[str, str])
        shown: list[str] = []
        for path, text in texts.items():
            body = [row for line in text.rstrip("\n").split("\n") for row in wrap(escape_all(line), width - 2)]
            more = [f"… {len(body) - SCRIPT} more lines"] if len(body) > SCRIPT else []
            shown += [escape(f"{path}:"), *(f"  {row}" for row in (*body[:SCRIPT], *more))]
        return shown

    def _facts(self) -> list[tuple[str, str]]:
        details = self.request.details
        place = [
            f"{word} {escape_all(str(value))}"
            for key, word in (("cwd", "in"), ("target", "on"), ("sandbox", "sandbox"))
            if (value := details.get(key))
        ]
        facts = [("where", " · ".join(place))] if place else []
        if why := details.get("why"):
            facts.append(("why", escape(str(why))))
        for key, value in details.items():
            if key not in _SILENT and value not in ("", None, {}, [], False) and value is not True:
                facts.append((escape(key), escape_all(_spelt(value))))
        if isinstance(scripts := details.get("scripts"), dict) and scripts:
            facts.append(("runs what is in", escape(", ".join(map(str, msgspec.convert(scripts, dict[str, object]))))))
        if details.get("scriptsComplete") is False:
            facts.append(("note", "it may run scripts that could not be read"))
        return facts


def describe_rule(rule: object) -> str:
    """A rule as it would stand in the file: `allow tool = "run_shell", argv = ["git", "status"]`."""
    if not isinstance(rule, dict):
        return escape(_spelt(rule))
    table = msgspec.convert(rule, dict[str, object])
    parts = [
        f"{key} = {msgspec.json.encode(value).decode()}"
        for key, value in table.items()
        if key != "decision" and value is not None
    ]
    return escape(f"{table.get('decision', 'allow')} {', '.join(parts)}")


def _spelt(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
