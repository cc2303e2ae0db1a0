"""What the permission rules say about a question, and what "always" would add to them."""

from collections.abc import Callable

import msgspec

from buddy.approvals.deadlines import NEVER, Deadline, Moment
from buddy.approvals.questions import Opinion, Question
from buddy.approvals.rules import Rule, Rules, Subject, suggest
from buddy.characters import find_deceptive
from buddy.errors import ProtocolError, UserError
from buddy.protocol.intents import Exec, Fetch, Intent, Keys, Other, Write, opens_sandbox
from buddy.protocol.shapes import ApprovalRequest
from buddy.tools.shell.mentions import relative

Remember = Callable[[Rule], None]

ALWAYS = "alwaysRule"


class GrantedRule(msgspec.Struct, frozen=True):
    """A rule that applies for a time, and the approval that it was granted by."""

    approval_id: str
    rule: Rule
    until: Deadline


class Permissions:
    """The rules of one workspace. `remember` stores a rule for good; without it no rule can be stored."""

    def __init__(
        self,
        root: str,
        rules: Callable[[], Rules] = Rules,
        remember: Remember | None = None,
        *,
        asks_for_shell: bool = True,
    ) -> None:
        """Without `asks_for_shell` (`shell_confirm = false`), commands run unless a rule says otherwise."""
        self._root = root
        self._asks_for_shell = asks_for_shell
        self._rules = rules
        self._remember = remember
        self._granted: dict[Rule, GrantedRule] = {}

    def judge(self, question: Question) -> Opinion:
        rules, intent = self._rules(), question.intent
        if not rules.rules and question.tier == "read-only" and not intent.caution:
            return Opinion(None, "no rules are defined")
        subject = subject_of(question.tool, intent, self._root)
        opinion = rules.judge(subject)
        if isinstance(intent, Keys):
            opinion = self._judge_keys(rules, intent, subject, opinion)
        unasked = not self._asks_for_shell and question.tool == "run_shell" and not opens_sandbox(intent)
        if unasked and opinion.decision is None:
            return Opinion("allow", "shell_confirm is off", "shell_confirm")
        if opinion.decision == "allow" and _is_protected(intent):
            return Opinion("ask", f"{opinion.why}; but this file can make programs run, so you are asked")
        if _names_outside(rules, subject, opinion, intent):
            return opinion
        if intent.caution and opinion.decision != "deny" and not opinion.must_ask:
            return Opinion("ask", intent.caution, by_rule=True)
        return opinion if question.tier == "read-only" else _ask_if_deceptive(opinion, subject)

    def _judge_keys(self, rules: Rules, intent: Keys, subject: Subject, opinion: Opinion) -> Opinion:
        """What is typed into a shell is run by it, so a denied command is denied there, too."""
        typed = intent.typed
        as_command = msgspec.structs.replace(subject, tool="run_shell", command=typed.text, cwd=self._root)
        denied = rules.judge(as_command)
        if denied.decision == "deny":
            return denied
        if rules.denies_commands and typed.submits and not typed.after.is_known and opinion.decision != "deny":
            why = "what is in the pane's input line is not known, so no rule that denies can be checked; C-c clears it"
            return Opinion("ask", why, must_ask=True)
        return opinion

    def is_closed(self, path: str) -> bool:
        """Whether a rule denies reading this file."""
        subject = Subject("read_file", path=relative(path, self._root), workspace=self._root)
        return self._rules().judge(subject).decision == "deny"

    def closed_now(self) -> Callable[[str], bool]:
        """The same for many files at once: the rules are read now."""
        rules = self._rules()
        if not rules.denies:
            return lambda _: False

        def is_closed(path: str) -> bool:
            subject = Subject("read_file", path=relative(path, self._root), workspace=self._root)
            return rules.judge(subject).decision == "deny"

        return is_closed

    def offer(self, question: Question) -> dict[str, object]:
        """The rule that "always" would create, to be shown with the question; empty if there is none."""
        intent = question.intent
        if self._remember is None or _is_protected(intent):
            return {}
        rule = suggest(subject_of(question.tool, intent, self._root))
        # As it will be read back from the log, so that live and rebuilt state are equal.
        return {ALWAYS: msgspec.json.decode(msgspec.json.encode(rule))} if rule is not None else {}

    def remember(self, approval: ApprovalRequest | None) -> None:
        """Store the rule that was shown; exactly that one."""
        rule = _offered_rule(approval)
        try:
            if self._remember is not None:
                self._remember(rule)
        except UserError as error:
            raise ProtocolError("INVALID_REQUEST", f"could not store the rule: {error}", detail=error.hint) from error

    def grant(self, approval: ApprovalRequest | None, until: Deadline) -> None:
        """Apply the rule that was shown until then, in this process only: a restart ends it."""
        rule = _offered_rule(approval)
        self._granted[rule] = GrantedRule(approval.approval_id if approval else "", rule, until)

    def grant_session(self, approval: ApprovalRequest | None) -> None:
        """For what is read outside the workspace, "for this session" means the file or directory that was shown."""
        if approval is not None and approval.details.get("outside") is True and ALWAYS in approval.details:
            self.grant(approval, NEVER)

    def grants(self, now: Moment) -> list[GrantedRule]:
        """Those that have not expired, the latest last."""
        return [granted for granted in self._granted.values() if not granted.until.is_over(now)]

    def revoke(self, approval_id: str) -> None:
        """End what was granted by this approval."""
        kept = [granted for granted in self._granted.values() if granted.approval_id != approval_id]
        self._granted = {granted.rule: granted for granted in kept}

    def find_grant(self, question: Question, now: Moment) -> str | None:
        """The id of a granted rule that has not expired and allows this."""
        self._granted = {granted.rule: granted for granted in self.grants(now)}
        rules = Rules(self._granted, index_above=len(self._granted))  # few, and other ones each time
        opinion = rules.judge(subject_of(question.tool, question.intent, self._root))
        return opinion.rule_id if opinion.decision == "allow" else None


def subject_of(tool: str, intent: Intent, root: str) -> Subject:
    """What rules look at: the command, the path or the host of a call."""
    target, sandbox = intent.target or "local", intent.sandbox or "host"
    about = Subject(tool, target=target, sandbox=sandbox, workspace=root)
    match intent:
        case Exec():
            return msgspec.structs.replace(
                about,
                command=intent.command,
                cwd=intent.cwd,
                network=bool(intent.network),
                outside=intent.outside,
                strays=intent.strays,
                scripts=tuple(f"{digest}  {relative(path, root)}" for path, digest in sorted(intent.scripts.items())),
            )
        case Fetch():
            return msgspec.structs.replace(about, host=intent.host)
        case Write():
            return msgspec.structs.replace(about, path=relative(intent.path, root))
        case Other():
            path = None if intent.path is None else relative(intent.path, root)
            return msgspec.structs.replace(about, path=path, definition=intent.definition)
        case Keys():
            return about


def _names_outside(rules: Rules, subject: Subject, opinion: Opinion, intent: Intent) -> bool:
    """Whether a rule allows reading outside the workspace by naming the path; allowing the tool is not enough."""
    if not isinstance(intent, Other) or not intent.is_outside or opinion.decision != "allow":
        return False
    return rules.judge(msgspec.structs.replace(subject, path=None)).decision != "allow"


def _ask_if_deceptive(opinion: Opinion, subject: Subject) -> Opinion:
    """No policy approves what a person may not see; lines and tabs are part of ordinary commands."""
    command = (subject.command or "").replace("\n", " ").replace("\t", " ")
    why = find_deceptive(command) or find_deceptive(subject.path or "") or find_deceptive(subject.host or "")
    if not why or opinion.decision in ("allow", "deny") or opinion.must_ask:
        return opinion
    return Opinion("ask", f"nothing but a person approves this: {why}", opinion.rule_id, by_rule=True)


def _is_protected(intent: Intent) -> bool:
    return isinstance(intent, Write) and intent.protected


def _offered_rule(approval: ApprovalRequest | None) -> Rule:
    shown = approval.details.get(ALWAYS) if approval is not None else None
    if shown is None:
        raise ProtocolError("INVALID_REQUEST", "this approval offers no rule to store; use scope once or session")
    return msgspec.convert(shown, Rule)
