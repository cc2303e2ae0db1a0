"""`buddy approvals …` and `buddy trust`: what is allowed, why, how to revoke it, and what waits for a decision."""

import asyncio
import json
import os
import sys
import time
from pathlib import Path

import msgspec

from buddy.approvals.dead_rules import find_dead_rules
from buddy.approvals.permissions import Permissions
from buddy.approvals.questions import Question
from buddy.approvals.rule_file import remove_rules
from buddy.approvals.rules import Rules, read_rules
from buddy.approvals.trust import Trust, effects_of
from buddy.cli.connect import async_client
from buddy.cli.options import Options
from buddy.cli.session_options import apply_configured, level_of
from buddy.cli.settings import places_of, read_config
from buddy.errors import ToolError, UserError
from buddy.protocol.requests import ListApprovals, ListApprovalsReply, TrustFolder, TrustFolderReply
from buddy.targets.local import Local
from buddy.terminal.escape import escape, one_line
from buddy.terminal.phrases import format_deadline, grant_text
from buddy.tools.contract import Place
from buddy.tools.run_shell import RunShell, RunShellArgs

EXITS = {"allow": 0, "deny": 3, "ask": 10, None: 10}


def approvals(options: Options) -> int:
    match options.action:
        case "explain":
            return explain(options)
        case "revoke":
            return revoke(options)
        case "log":
            from buddy.cli.approvals_log import audit

            return asyncio.run(audit(options))
        case "show" | "approve" | "deny":
            return _decide(options)
        case _:
            return asyncio.run(_list(options))


def _decide(options: Options) -> int:
    from buddy.cli.approvals_decide import decide, show
    from buddy.cli.daemon import launch

    if options.action == "show":
        return asyncio.run(show(options))
    if not options.config:
        launch(options)  # the run must not end with this process
    return asyncio.run(decide(options, "approve" if options.action == "approve" else "deny"))


def _usual_level(options: Options) -> str:
    """The level that a new session in this directory would have."""
    apply_configured(options)
    return level_of(options) or "host"


def explain(options: Options) -> int:
    """Which rule decides on a command, and why; the exit code says what it decides.

    The command is prepared and judged as if a model had called `run_shell` with it.
    """
    root = os.path.realpath(options.directory)
    sandbox = options.sandbox or ("confined" if options.network else _usual_level(options))
    place = Place(Local(), root, sandbox)
    arguments = RunShellArgs(options.text, cwd=options.cwd, network=options.network)
    permissions = Permissions(
        root, lambda: rules_here(options), asks_for_shell=read_config(options).tools.shell_confirm
    )
    try:
        intent = asyncio.run(RunShell().intent(arguments, place))
    except ToolError as error:
        raise UserError(str(error)) from error
    opinion = permissions.judge(Question("explain", "privileged", intent, "", "run_shell"))
    print(f"{opinion.decision or 'ask'}: {escape(opinion.why)}")
    return EXITS[opinion.decision]


def revoke(options: Options) -> int:
    """Remove a rule from the user's file, or end what was granted for a session or a time."""
    path = _file(options)
    removed = remove_rules(path, lambda table: read_rules({"rules": [table]}).rules[0].rule_id == options.rule)
    if not removed:
        from buddy.cli.approvals_decide import revoke_granted

        return revoke_granted(options, f"no rule {options.rule[:40]} in {path}")
    print(f"removed {removed} {'rule' if removed == 1 else 'rules'} from {path}", file=sys.stderr)
    return 0


def trust(options: Options) -> int:
    """Trust a folder's own settings as they are now, or stop trusting them."""
    root = os.path.realpath(options.folder)

    async def work() -> int:
        async with async_client(options, "cli") as client:
            reply = await client.request(TrustFolder(root, not options.revoke), TrustFolderReply)
        print(f"{escape(root)} is {'not ' if options.revoke else ''}trusted ({reply.hash[:16]})", file=sys.stderr)
        for effect in effects_of(root):
            print(f"  {escape(effect.name)}  {one_line(effect.text, sys.maxsize)}", file=sys.stderr)
        return 0

    return asyncio.run(work())


async def _list(options: Options) -> int:
    rules = rules_here(options).rules
    async with async_client(options, "cli") as client:
        found = await client.request(ListApprovals(grants=not options.no_grants), ListApprovalsReply)
    waiting, granted = found.approvals, found.grants
    dead = {found.rule: found for found in find_dead_rules(rules)}
    if options.json:
        shown = [
            {"id": rule.rule_id, **rule.as_table(), **({"problem": dead[rule].describe()} if rule in dead else {})}
            for rule in rules
        ]
        print(json.dumps({"rules": shown, **msgspec.to_builtins({"pending": waiting, "grants": granted})}))
        return 0
    for rule in rules:
        print(f"{rule.rule_id}  {escape(rule.describe())}")
        if rule in dead:
            print(f"{'':<10}{escape(dead[rule].text)}; {escape(dead[rule].instead)}")
    for approval in waiting:
        left = format_deadline(approval.expires_at, time.time())
        about = f"{escape(approval.title)}: {one_line(approval.summary, 200)}{f' ({left})' if left else ''}"
        print(f"pending  {approval.approval_id}  {about}")
    for grant in granted:
        print(f"granted  {grant.grant_id}  {grant_text(grant, time.time())}  ({grant.session_id})")
    if waiting:
        print("hint: buddy approvals show|approve|deny ID", file=sys.stderr)
    if granted:
        print("hint: buddy approvals revoke ID ends a grant", file=sys.stderr)
    if not rules and not waiting and not granted:
        print("no rules and nothing pending; Buddy asks before every side effect", file=sys.stderr)
    return 0


def rules_here(options: Options) -> Rules:
    """The person's own rules, and those of this folder if it is trusted."""
    config = read_config(options)
    own = read_rules(config.permissions, config.source)
    project = Trust(places_of(options).state_dir).project_rules(os.path.realpath(options.directory))
    return Rules((*own.rules, *read_rules({"rules": list(project.rules)}).rules))


def _file(options: Options) -> Path:
    config = read_config(options)
    return Path(config.source) if config.source else places_of(options).config_dir / "buddy.toml"
