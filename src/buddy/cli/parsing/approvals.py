"""The arguments of `approvals` and `trust`."""

from typing import TYPE_CHECKING

from buddy.cli.options import Options
from buddy.cli.parsing.parser import add, add_actions, add_common, add_json, finish, whole_number

if TYPE_CHECKING:
    from buddy.cli.parsing.parser import Subparsers


def add_approvals(commands: "Subparsers") -> None:
    actions = add_actions(add(commands, "approvals", "approval rules, why they apply, and pending approvals"))
    listing = add(actions, "list", "list rules, pending approvals, and what is granted for a session or a time")
    listing.add_argument("--no-grants", action="store_true", help="leave out what is granted for a session or a time")
    add_json(listing)
    explaining = add(actions, "explain", "show what the rules decide for a command (exit 0 allow, 3 deny, 10 ask)")
    explaining.add_argument("text", metavar="CMD", help="shell command, quoted")
    explaining.add_argument("--cwd", metavar="DIR", help="directory the command runs in (default: the workspace)")
    explaining.add_argument("--sandbox", metavar="LEVEL", help="assume this sandbox level")
    explaining.add_argument("--network", action="store_true", help="assume the confined sandbox, with network access")
    showing, approving, denying = (
        add(actions, "show", "show everything that a pending approval would run"),
        add(actions, "approve", "approve a pending call; its run continues in the daemon"),
        add(actions, "deny", "deny a pending call; its run continues without it"),
    )
    for action in (showing, approving, denying):
        action.add_argument("approval", metavar="ID", help="approval id as listed, its beginning or its end")
    approving.add_argument(
        "--scope",
        choices=("once", "session", "always"),
        default="once",
        help="once (default), session: the same call again in this session, always: add the rule that is shown",
    )
    denying.add_argument("--comment", metavar="TEXT", help="tell the model why, or what to do instead")
    denying.add_argument("--stop", action="store_true", help="also end the run")
    revoking = add(actions, "revoke", "remove a rule, or end a grant")
    revoking.add_argument("rule", metavar="ID", help="id of a rule or a grant, as listed")
    logging = add(actions, "log", "show who decided what, when and by which rule, newest last")
    logging.add_argument("--session", metavar="ID", help="only this session")
    logging.add_argument("--since", metavar="TIME", help="only decisions since then: 2h, 7d or 2026-01-31")
    logging.add_argument(
        "--limit", type=whole_number, default=50, metavar="N", help="maximum number of entries (default 50)"
    )
    add_json(logging)
    deciding = {"show": showing, "approve": approving, "deny": denying}
    finish({"list": listing, **deciding, "explain": explaining, "revoke": revoking, "log": logging}, _approvals)


def add_trust(commands: "Subparsers") -> None:
    parser = add(commands, "trust", "let a folder's own buddy.toml tighten the rules")
    parser.add_argument("folder", metavar="DIR", help="folder; . is the current one")
    parser.add_argument("--revoke", action="store_true", help="stop trusting it")
    add_common(parser)
    parser.set_defaults(command=_trust)


ADD = {"approvals": add_approvals, "trust": add_trust}


def _approvals(options: Options) -> int:
    from buddy.cli.approvals import approvals

    return approvals(options)


def _trust(options: Options) -> int:
    from buddy.cli.approvals import trust

    return trust(options)
