"""Permission rules: reading them, and judging a command, a file and a tool that none of them or the last one names.

The floor is the same with ten rules.
"""

import json
import tomllib
from collections.abc import Iterator

from bench.growing.cpu import least_cpu
from bench.growing.figures import Figure, Part
from bench.setup import Setup
from buddy.approvals.dead_rules import find_dead_rules
from buddy.approvals.rules import Rules, Subject, read_rules

SIZES = (100, 1_000, 10_000)
FEW = 10
WORKSPACE = "/home/user/work"
SUBJECTS = (
    ("a command that no rule names", Subject("run_shell", command="cargo build --release", workspace=WORKSPACE)),
    ("a command that one rule allows", Subject("run_shell", command="git log task-4", workspace=WORKSPACE)),
    ("a command with wildcards", Subject("run_shell", command="grep -n TODO src/*.py $x", workspace=WORKSPACE)),
    ("a long pipe", Subject("run_shell", command=" | ".join(["sort -u names"] * 20), workspace=WORKSPACE)),
    ("a file", Subject("write_file", path="src/main.py", workspace=WORKSPACE)),
    ("a host", Subject("fetch_url", host="docs.example.org", workspace=WORKSPACE)),
    ("a tool of a server", Subject("mcp__server__search", workspace=WORKSPACE)),
)


def measure(_setup: Setup, count: int) -> Iterator[Figure]:
    table, few = {"rules": made_up(count)}, {"rules": made_up(FEW)}
    times = max(1, 1000 // count)
    document, short = (write_rules(table["rules"]) for table in (table, few))
    read, floor = (least_cpu(lambda it=it: _read(it), 3) for it in (document, short))
    yield Figure("read them from the file and index them", "ms", read, floor)
    rules, ten = read_rules(table), read_rules(few)
    yield Figure(
        "warn of those that allow nothing", "ms", *(least_cpu(lambda it=it: _warn(it), 3) for it in (rules, ten))
    )
    for work, subject in SUBJECTS:
        value = least_cpu(lambda about=subject: rules.judge(about), times=times)
        yield Figure(f"judge {work}", "ms", value, least_cpu(lambda about=subject: ten.judge(about), times=times))


def write_rules(rules: list[dict[str, object]]) -> str:
    """A `buddy.toml` with these rules; JSON's strings and lists are TOML's, too."""
    tables = ("\n".join(f"{key} = {json.dumps(value)}" for key, value in rule.items()) for rule in rules)
    return "\n".join(f"[[permissions.rules]]\n{table}" for table in tables)


def _warn(rules: Rules) -> None:
    find_dead_rules(rules.rules)


def _read(document: str) -> None:
    read_rules(tomllib.loads(document)["permissions"]).judge(SUBJECTS[0][1])


def made_up(count: int) -> list[dict[str, object]]:
    """What somebody collects who answers "always" for years, and what an administrator denies."""
    kinds = (_literal, _wild, _denied, _file, _closed_file, _host, _server_tool, _asked)
    return [kinds[number % len(kinds)](number) for number in range(count)]


def _literal(number: int) -> dict[str, object]:
    return {"decision": "allow", "tool": "run_shell", "argv": ["git", "log", f"task-{number + 4}"]}


def _wild(number: int) -> dict[str, object]:
    return {"decision": "allow", "argv": ["grep", "-n", f"word{number}", "*"]}


def _denied(number: int) -> dict[str, object]:
    return {"decision": "deny", "argv": [f"tool-{number}", "push", "**"]}


def _file(number: int) -> dict[str, object]:
    return {"decision": "allow", "tool": "write_file", "path": f"notes/{number}.md", "workspace": WORKSPACE}


def _closed_file(number: int) -> dict[str, object]:
    return {"decision": "deny", "path": f"secrets/{number}/**"}


def _host(number: int) -> dict[str, object]:
    return {"decision": "allow", "tool": "fetch_url", "host": f"docs{number}.example.com"}


def _server_tool(number: int) -> dict[str, object]:
    return {"decision": "allow", "tool": f"mcp__server__tool_{number}", "definition": f"server-{number:08d}"}


def _asked(number: int) -> dict[str, object]:
    return {"decision": "ask", "argv": ["docker", "run", f"image-{number}", "**"]}


PART = Part("rules", "permission rules", SIZES, measure)
