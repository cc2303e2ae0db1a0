"""What the permission rules say of a question, and what "always" would add to them."""

from collections.abc import Callable
from urllib.parse import urlsplit

import msgspec

from buddy.approvals.questions import Question
from buddy.approvals.rules import Opinion, Rule, Rules, Subject, suggest
from buddy.errors import ProtocolError, UserError
from buddy.protocol.shapes import ApprovalRequest
from buddy.tools.shell.mentions import relative

Remember = Callable[[Rule], None]

ALWAYS = "alwaysRule"


class Permissions:
    """The rules that hold in one workspace. `remember` keeps a rule for good; without it nothing can be kept."""

    def __init__(
        self,
        root: str,
        rules: Callable[[], Rules] = Rules,
        remember: Remember | None = None,
        *,
        asks_for_shell: bool = True,
    ) -> None:
        """Without `asks_for_shell` (`shell_confirm = false`), commands run where no rule says otherwise."""
        self._root = root
        self._asks_for_shell = asks_for_shell
        self._rules = rules
        self._remember = remember
        self._granted: dict[Rule, int] = {}

    def judge(self, question: Question) -> Opinion:
        rules = self._rules()
        if not rules.rules and question.tier == "read-only":
            return Opinion(None, "there are no rules")
        subject = self._subject(question)
        opinion = rules.judge(subject)
        if question.intent.kind == "keys":
            # What is typed into a shell is run by it: a denied command is denied there, too.
            typed = msgspec.structs.replace(subject, tool="run_shell", command=_typed(question), cwd=self._root)
            denied = rules.judge(typed)
            opinion = denied if denied.decision == "deny" else opinion
        unasked = not self._asks_for_shell and question.tool == "run_shell" and not subject.network
        if unasked and opinion.decision is None:
            return Opinion("allow", "shell_confirm is off", "shell_confirm")
        if opinion.decision == "allow" and question.intent.details.get("protected"):
            return Opinion("ask", f"{opinion.why}; but this file can make programs run, so it is asked for")
        return opinion

    def opens_network(self, question: Question) -> bool:
        """Whether a command that is confined is to have network all the same."""
        return question.intent.details.get("network") == "on"

    def is_closed(self, path: str) -> bool:
        """Whether a rule denies reading this file."""
        subject = Subject("read_file", path=relative(path, self._root), workspace=self._root)
        return self._rules().judge(subject).decision == "deny"

    def offer(self, question: Question) -> dict[str, object]:
        """The rule that "always" would create, to be shown with the question; nothing where there is none."""
        if self._remember is None or question.intent.details.get("protected"):
            return {}
        rule = suggest(self._subject(question))
        if rule is not None and question.intent.details.get("scripts"):
            # The same words run another file elsewhere.
            rule = msgspec.structs.replace(rule, workspace=self._root)
        # As it will be read back from the log, so that what is live and what is rebuilt are equal.
        return {ALWAYS: msgspec.json.decode(msgspec.json.encode(rule))} if rule is not None else {}

    def remember(self, approval: ApprovalRequest | None) -> None:
        """Keep the rule that was shown; exactly that one."""
        rule = _shown(approval)
        try:
            if self._remember is not None:
                self._remember(rule)
        except UserError as error:
            raise ProtocolError("INVALID_REQUEST", f"the rule was not kept: {error}", detail=error.hint) from error

    def grant(self, approval: ApprovalRequest | None, expires_at: int) -> None:
        """Have the rule that was shown hold for a while, here alone; it is nowhere written, so a restart ends it."""
        self._granted[_shown(approval)] = expires_at

    def grants(self, now: int) -> bool:
        """Whether any rule holds for a while yet."""
        return any(now < expires_at for expires_at in self._granted.values())

    def granted(self, question: Question, now: int) -> str | None:
        """The id of a rule that a person let hold until later than now, and that allows this."""
        self._granted = {rule: expires_at for rule, expires_at in self._granted.items() if now < expires_at}
        opinion = Rules(self._granted).judge(self._subject(question))
        return opinion.rule_id if opinion.decision == "allow" else None

    def _subject(self, question: Question) -> Subject:
        details = question.intent.details
        target, sandbox = str(details.get("target") or "local"), str(details.get("sandbox") or "host")
        about = Subject(question.tool, target=target, sandbox=sandbox, workspace=self._root)
        match question.intent.kind:
            case "exec" if details.get("command") is not None:
                cwd = str(details.get("cwd") or self._root)
                command, network = str(details["command"]), self.opens_network(question)
                return msgspec.structs.replace(about, command=command, cwd=cwd, network=network)
            case "fetch":
                host = details.get("host") or urlsplit(str(details.get("url", ""))).hostname
                return msgspec.structs.replace(about, host=str(host or ""))
            case "write" | "tool" if isinstance(path := details.get("path"), str):
                return msgspec.structs.replace(about, path=relative(path, self._root))
            case _:
                return about


def _shown(approval: ApprovalRequest | None) -> Rule:
    shown = approval.details.get(ALWAYS) if approval is not None else None
    if shown is None:
        raise ProtocolError("INVALID_REQUEST", "no rule was shown that could be kept; use scope once or session")
    return msgspec.convert(shown, Rule)


def _typed(question: Question) -> str:
    """What the keys write, as far as they are characters."""
    details = question.intent.details
    keys = [" " if key == "Space" else key for key in details.get("keys") or () if key == "Space" or len(key) == 1]
    return f"{details.get('text') or ''}{''.join(keys)}"
