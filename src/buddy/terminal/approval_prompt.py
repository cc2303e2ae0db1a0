"""The prompt that holds a call: everything that will run, and an answer for each key.

Invariants: what is shown is everything that will run, escaped and wrapped; keys typed before the prompt appeared do not
answer it; a command longer than a page must be shown in full before it can be approved.
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
# Keys count as answers only after a pause this long: someone in the middle of a word can finish it.
CALM_SECONDS = 0.6
# How long the shown rule applies when it is granted with `t`.
GRANT_SECONDS = 600

# Digests and sizes bind the decision; people read the command or the diff instead.
_HIDDEN = frozenset(
    {"command", "diff", "cwd", "target", "sandbox", "why", "alwaysRule"}
    | {"scripts", "scriptTexts", "scriptsComplete", "sha256", "replaces", "bytes"}
)


_PLACES = {
    ("target", "local"): "on this machine",
    ("sandbox", "host"): "no sandbox",
}


class ApprovalAnswer(Struct, frozen=True):
    decision: Verdict
    scope: Scope = "once"
    comment: str | None = None
    seconds: float | None = None


class ApprovalPrompt:
    """One approval on the screen. It answers through `decide`, at most once."""

    def __init__(
        self,
        request: ApprovalRequest,
        style: Style,
        decide: Callable[[ApprovalAnswer], None] = lambda _: None,
        begin_comment: Callable[[], None] = lambda: None,
        show_all: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.request = request
        self.armed = False
        self._style = style
        self._decide = decide
        self._begin_comment = begin_comment
        self._show_all = show_all
        self._is_shown = self._length() <= PAGE
        self._answered = False

    @property
    def locks(self) -> bool:
        """Whether keys are answers rather than text."""
        return self.armed and not self._answered

    def block(self, columns: int, *, full: bool = False) -> str:
        """What would happen, for the scrollback: in full, or one page with a key for the rest."""
        style, details = self._style, self.request.details
        inner = max(20, columns - 4)
        lines = [style.yellow(f"┌ {escape(self.request.title)}")]
        body = self._action(inner)
        if len(body) > PAGE and not self._is_shown and not full:
            body = [*body[:PAGE], style.yellow(f"… {len(body) - PAGE} more lines; press e to see them")]
        lines += [f"{style.yellow('│')} {line}" for line in body]
        for name, value in self._facts():
            lines += [f"{style.yellow('│')} {style.dim(line)}" for line in wrap_words(f"{name}: {value}", inner)]
        lines += [f"{style.yellow('│')} {style.dim(line)}" for line in self._scripts(inner)]
        rule = details.get("alwaysRule")
        if rule is not None:
            text = f'"Always" adds this rule: {describe_rule(rule)}'
            lines += [f"{style.yellow('│')} {style.dim(line)}" for line in wrap_words(text, inner)]
        return "\n".join([*lines, style.yellow("└")])

    def lines(self, columns: int) -> list[str]:
        """The answers, right above the input, once keys are accepted."""
        if not self.locks:
            return [self._style.yellow("Approval needed")]
        answers = [("1", "Yes"), ("2", "Yes, for this session")] if self._is_shown else [("e", "Show all")]
        if self._is_shown and self._has_rule:
            answers += [("3", "Always"), ("t", f"For {GRANT_SECONDS // 60} min")]
        answers += [("4", "No"), ("5", "No, do this instead…")]
        return self._pack(answers, columns)

    def _pack(self, answers: Sequence[tuple[str, str]], columns: int) -> list[str]:
        """As many on a line as fit."""
        lines, used = [""], 0
        for key, text in answers:
            size = len(key) + len(text) + 4
            if used + size > columns and used:
                lines, used = [*lines, ""], 0
            lines[-1] += f"{' · ' if used else ''}{self._style.bold(key)} {text}"
            used += size
        return lines

    def press(self, key: str) -> None:
        if not self.locks:
            return
        match key:
            case "e" if not self._is_shown:
                self._is_shown = True
                self._show_all("\n".join(self._action(ROW)))
            case "1" | "y" if self._is_shown:
                self.answer(ApprovalAnswer("approve"))
            case "2" if self._is_shown:
                self.answer(ApprovalAnswer("approve", "session"))
            case "3" if self._is_shown and self._has_rule:
                self.answer(ApprovalAnswer("approve", "always"))
            case "t" if self._is_shown and self._has_rule:
                self.answer(ApprovalAnswer("approve", "until", seconds=GRANT_SECONDS))
            case "4" | "n":
                self.answer(ApprovalAnswer("deny"))
            case "5":
                self._begin_comment()
            case _:
                pass

    def answer(self, answer: ApprovalAnswer) -> None:
        if not self._answered:
            self._answered = True
            self._decide(answer)

    @property
    def _has_rule(self) -> bool:
        return self.request.details.get("alwaysRule") is not None

    def _length(self) -> int:
        """How many rows it takes on a typical terminal."""
        details = self.request.details
        texts = [str(details.get(key) or "") for key in ("command", "diff")]
        return max(sum(1 + len(line) // ROW for line in text.split("\n")) for text in texts)

    def _action(self, width: int) -> list[str]:
        """The command or the diff itself; without either, the summary."""
        details, style = self.request.details, self._style
        if isinstance(command := details.get("command"), str):
            first, *rest = wrap(escape_all(command), width - 2)
            return [f"{style.bold('$')} {style.bold(first)}", *(f"  {style.bold(line)}" for line in rest)]
        if isinstance(diff := details.get("diff"), str) and diff:
            wrapped = "\n".join(wrap(escape_all(diff), width))
            return diff_block(wrapped, style, most=10**9).split("\n")
        return list(wrap_words(escape(self.request.summary), width))

    def _scripts(self, width: int) -> list[str]:
        """The first lines of the scripts that the command runs."""
        texts = msgspec.convert(self.request.details.get("scriptTexts") or {}, dict[str, str])
        lines: list[str] = []
        for path, text in texts.items():
            body = [row for line in text.rstrip("\n").split("\n") for row in wrap(escape_all(line), width - 2)]
            more = [f"… {len(body) - SCRIPT} more lines"] if len(body) > SCRIPT else []
            lines += [escape(f"{path}:"), *(f"  {row}" for row in (*body[:SCRIPT], *more))]
        return lines

    def _facts(self) -> list[tuple[str, str]]:
        details = self.request.details
        place = [
            _PLACES.get((key, str(value))) or f"{word} {escape_all(str(value))}"
            for key, word in (("cwd", "in"), ("target", "on"), ("sandbox", "sandbox"))
            if (value := details.get(key))
        ]
        facts = [("where", " · ".join(place))] if place else []
        if why := details.get("why"):
            facts.append(("why", escape(str(why))))
        for key, value in details.items():
            if key not in _HIDDEN and value not in ("", None, {}, [], False) and value is not True:
                facts.append((escape(key), escape_all(_spell(value))))
        if isinstance(scripts := details.get("scripts"), dict) and scripts:
            facts.append(("runs", escape(", ".join(map(str, msgspec.convert(scripts, dict[str, object]))))))
        if details.get("scriptsComplete") is False:
            facts.append(("note", "it may run scripts that could not be read"))
        return facts


def describe_rule(rule: object) -> str:
    """A rule in words: allow `git status` on this machine."""
    if not isinstance(rule, dict):
        return escape(_spell(rule))
    fields = {name: value for name, value in msgspec.convert(rule, dict[str, object]).items() if value is not None}
    words = [str(fields.pop("decision", "allow"))]
    tool, argv = fields.pop("tool", None), msgspec.convert(fields.pop("argv", []), list[str])
    if tool is not None and not (tool == "run_shell" and argv):
        words.append(_spell(tool))
    if argv:
        words.append(f"`{' '.join(map(_quote, argv))}`")
    words += [_quote(_spell(fields.pop(name))) for name in ("path", "host") if name in fields]
    network = fields.pop("network", None)
    words += [] if network is None else ["with network" if network else "without network"]
    workspace, target = fields.pop("workspace", None), fields.pop("target", None)
    where = [_spell(part) for part in (workspace, fields.pop("cwd", None)) if part is not None]
    files = [line.partition("  ")[2] for line in msgspec.convert(fields.pop("scripts", []), list[str])]
    words += [f"{name} = {msgspec.json.encode(value).decode()}" for name, value in fields.items()]
    words += [f"in {_quote('/'.join(where))}"] if where else []
    words += [] if target is None else ["on this machine" if target == "local" else f"on {_spell(target)}"]
    words += [f"while unchanged: {', '.join(map(_quote, files))}"] if files else []
    return escape_all(" ".join(words))


def _quote(word: str) -> str:
    """As it is, unless a reader could not tell where it ends; `**` stays a pattern."""
    is_plain = word and not any(character.isspace() or character in "'\"`\\" for character in word)
    return word if is_plain else msgspec.json.encode(word).decode()


def _spell(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
