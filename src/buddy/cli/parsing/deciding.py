"""`approvals` and `trust`: what decides."""

from typing import TYPE_CHECKING

from buddy.cli.options import Options
from buddy.cli.parsing.parser import add, add_actions, add_common, add_json, finish

if TYPE_CHECKING:
    from buddy.cli.parsing.parser import Subparsers


def add_approvals(commands: "Subparsers") -> None:
    actions = add_actions(add(commands, "approvals", "the rules that decide, why, and what waits"))
    listing = add(actions, "list", "rules, and approvals that wait")
    add_json(listing)
    explaining = add(actions, "explain", "what the rules say of a command (exit 0 allow, 3 deny, 10 ask)")
    explaining.add_argument("text", metavar="CMD", help="as a shell would run it, in quotes")
    explaining.add_argument("--sandbox", metavar="LEVEL", help="as if commands were confined so")
    explaining.add_argument("--network", action="store_true", help="confined, and with network for this command")
    revoking = add(actions, "revoke", "remove a rule")
    revoking.add_argument("rule", metavar="RULE", help="its id in the list")
    logging = add(actions, "log", "who decided what, when, by which rule; the newest last")
    logging.add_argument("--session", metavar="ID", help="of this session alone")
    logging.add_argument("--since", metavar="TIME", help="such as 2h, 7d, or 2026-01-31")
    logging.add_argument("--limit", type=int, default=50, metavar="N", help="so many at most (50)")
    add_json(logging)
    finish({"list": listing, "explain": explaining, "revoke": revoking, "log": logging}, _approvals)


def add_trust(commands: "Subparsers") -> None:
    parser = add(commands, "trust", "let a folder's own buddy.toml make things stricter")
    parser.add_argument("folder", metavar="DIR", help="such as . for this one")
    parser.add_argument("--revoke", action="store_true", help="trust it no more")
    add_common(parser)
    parser.set_defaults(command=_trust)


ADD = {"approvals": add_approvals, "trust": add_trust}


def _approvals(options: Options) -> int:
    from buddy.cli.approvals import approvals

    return approvals(options)


def _trust(options: Options) -> int:
    from buddy.cli.approvals import trust

    return trust(options)
