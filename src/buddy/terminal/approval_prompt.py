"""The prompt that holds a call: everything that will run, and its answers: a digit, or a word and Enter.

Invariants: what is shown is everything that will run, escaped and wrapped; keys typed before the prompt appeared do not
answer it; what is longer than a page must be paged to its end before it can be approved.
"""

from collections.abc import Callable, Sequence

import msgspec
from msgspec import Struct

from buddy.protocol.codes import Scope, Verdict
from buddy.protocol.shapes import ApprovalRequest
from buddy.terminal.approval_screen import ApprovalText, Line, Page, approval_text, pages_of
from buddy.terminal.blocks import diff_line
from buddy.terminal.escape import escape, escape_all
from buddy.terminal.style import Style
from buddy.terminal.wrap import cut

# Keys count as answers only after a pause this long: someone in the middle of a word can finish it.
CALM_SECONDS = 0.6
# How long the shown rule applies when it is granted with `t`.
GRANT_SECONDS = 600
# What answers only together with Enter: a letter may be the beginning of a sentence.
WORDS = {"y": "1", "yes": "1", "n": "4", "no": "4", "t": "t", "e": "e"}
UNSEEN = "You can approve on the last page: e shows the next one"
NO_RULE = "No rule can allow this: 1 Yes, 2 for this session, 4 No, 5 No, do this instead"

TOO_SMALL = "The terminal is too small to show what is asked; enlarge it"


class ApprovalAnswer(Struct, frozen=True):
    decision: Verdict
    scope: Scope = "once"
    comment: str | None = None
    seconds: float | None = None


class ApprovalPrompt:
    """One approval on the screen. It answers through `decide`, at most once, and yes only on the last page."""

    def __init__(
        self,
        request: ApprovalRequest,
        style: Style,
        decide: Callable[[ApprovalAnswer], None] = lambda _: None,
        begin_comment: Callable[[], None] = lambda: None,
    ) -> None:
        self.request = request
        self.armed = False
        self._style = style
        self._decide = decide
        self._begin_comment = begin_comment
        self._answered = False
        self._notice = ""
        self._size = (0, 0)
        self._pages: tuple[Page, ...] = ()
        self._page = 0
        self._drawn = -1  # the page that is on the screen

    @property
    def is_open(self) -> bool:
        """Whether it can be answered."""
        return self.armed and not self._answered

    @property
    def is_shown(self) -> bool:
        """Whether everything was shown on a screen of this size, and its end still is."""
        return self._is_last and self._drawn == self._page

    @property
    def _is_last(self) -> bool:
        return bool(self._pages) and self._page == len(self._pages) - 1

    def block(self, columns: int) -> str:
        """Everything that would happen, for the scrollback."""
        return "\n".join(self._styled(line) for line in self._text(columns).lines)

    def lines(self, columns: int, rows: int, typed: str = "") -> list[str]:
        """What would happen, or a page of it, and the answers, on at most `rows` rows right above the input.

        `typed` is the word in the input that Enter would answer with.
        """
        self._resize(columns, rows - len(self._pack(self._choices(is_last=True), columns)))
        if not self._pages:
            return [self._style.yellow(cut(TOO_SMALL, columns - 1)), *self._answers(columns, typed)][-max(1, rows) :]
        self._drawn = self._page
        return [*map(self._styled, self._pages[self._page]), *self._answers(columns, typed)]

    def _resize(self, columns: int, rows: int) -> None:
        """Another size has other pages: paging starts again, and the last notice no longer applies."""
        if (columns, rows) == self._size:
            return
        self._size, self._notice = (columns, rows), ""
        pages = pages_of(self._text(columns), rows)
        if len(pages) != 1 and pages != self._pages:
            self._page = 0
        self._pages, self._drawn = pages, -1
        self._page = min(self._page, max(0, len(pages) - 1))

    def _text(self, columns: int) -> ApprovalText:
        rule = self.request.details.get("alwaysRule")
        return approval_text(self.request, columns, rule="" if rule is None else describe_rule(rule))

    def _styled(self, line: Line) -> str:
        style, mark = self._style, self._style.yellow(line.mark.rstrip())
        match line.kind:
            case "title":
                return style.yellow(line.framed)
            case "command":
                text = style.bold(line.text)
            case "diff":
                text = diff_line(line.text, style)
            case "fact" | "fold":
                text = style.dim(line.text)
            case "end":
                return mark
        return f"{mark} {text}"

    def _answers(self, columns: int, typed: str) -> list[str]:
        """The keys, once they are accepted."""
        if not self.is_open:
            return [self._style.yellow("Approval needed")]
        meant = dict(self._choices(is_last=self._is_last)).get(WORDS.get(typed, ""))
        notice = self._notice if meant is None else f"Press Enter to answer: {meant}"
        if notice:
            return [self._style.yellow(cut(notice, columns - 1))]
        return self._pack(self._choices(is_last=self._is_last), columns)

    def _choices(self, *, is_last: bool) -> list[tuple[str, str]]:
        answers = [("1", "Yes"), ("2", "Yes, for this session")] if is_last else []
        if is_last and self._has_rule:
            answers += [("3", "Always"), ("t", f"For {GRANT_SECONDS // 60} min")]
        if not is_last and self._pages:
            answers += [("e", "Next page")]
        return [*answers, ("4", "No"), ("5", "No, do this instead…")]

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

    def offers(self, key: str) -> bool:
        """Whether this key answers, or pages, by itself."""
        if not self.is_open:
            return False
        return key in ("1", "2", "3", "4", "5") or (key in ("e", " ") and self.has_next_page)

    @property
    def has_next_page(self) -> bool:
        return bool(self._pages) and not self._is_last

    def press(self, key: str) -> None:
        """Answer with a key or a word, or show why it is no answer now."""
        key, self._notice = WORDS.get(key, key), ""
        if not self.is_open:
            return
        if key in ("1", "2", "3", "t") and not self.is_shown:
            self._notice = UNSEEN
        elif key in ("3", "t") and not self._has_rule:
            self._notice = NO_RULE
        else:
            self._answer_with(key)

    def _answer_with(self, key: str) -> None:
        match key:
            case "e" | " " if not self._is_last:
                self._page = min(self._page + 1, max(0, len(self._pages) - 1))
            case "1":
                self.answer(ApprovalAnswer("approve"))
            case "2":
                self.answer(ApprovalAnswer("approve", "session"))
            case "3":
                self.answer(ApprovalAnswer("approve", "always"))
            case "t":
                self.answer(ApprovalAnswer("approve", "until", seconds=GRANT_SECONDS))
            case "4":
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
    words += ["with any arguments, while its definition is unchanged"] if fields.pop("definition", None) else []
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
