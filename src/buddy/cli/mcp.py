"""`buddy mcp add|list|remove|test`: the MCP servers in the user's own file, and whether they work."""

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import msgspec
import tomlkit

from buddy.cli.mcp_check import Found, ServerReport, check_servers, find_servers, only
from buddy.cli.options import Options
from buddy.cli.settings import config_finder, places_of, read_config
from buddy.config.edit import change_file
from buddy.config.load import parse_config
from buddy.config.mcp import SERVER_NAME
from buddy.config.places import Places
from buddy.errors import UserError
from buddy.scrub import Scrubber
from buddy.terminal.escape import escape, escape_json
from buddy.terminal.style import Style, style_of
from buddy.tools.mcp.servers import MISSING, is_installed

LIST_SECONDS = 10.0
MISPLACED = "[mcp.servers] is not a table of servers"


def mcp(options: Options) -> int:
    return {"add": _add, "list": _list, "remove": _remove, "test": _test, "login": _login}[options.action](options)


def _login(options: Options) -> int:
    if not is_installed():
        raise UserError(MISSING)
    from buddy.cli.mcp_login import log_in

    return log_in(options)


def serve(options: Options) -> int:
    """Be an MCP server; the SDK is loaded only here."""
    if not is_installed():
        raise UserError(MISSING)
    from buddy.cli.mcp_serve import serve as serve_tools

    return serve_tools(options)


def _add(options: Options) -> int:
    name, words = options.name, list(vars(options).get("words", []))
    if SERVER_NAME.fullmatch(name) is None:
        raise UserError(f"{name[:80]!r} cannot be a name", hint="use up to 48 letters, digits, '_', '-' and '.'")
    table = _table(words, options)
    path = _file(options)

    def change(document: Any) -> None:
        servers = document.setdefault("mcp", tomlkit.table(is_super_table=True)).setdefault(
            "servers", tomlkit.table(is_super_table=True)
        )
        if name in servers:
            raise UserError(f"{path} already has an MCP server {name!r}", hint=f"buddy mcp remove {name}")
        servers[name] = table
        parse_config(tomlkit.dumps(document), str(path))

    change_file(path, change, MISPLACED)
    print(f"added {name} to {path}", file=sys.stderr)
    if not is_installed():
        print(f"warning: {MISSING}", file=sys.stderr)
    print(f"hint: buddy mcp test {name}", file=sys.stderr)
    return 0


def _table(words: list[str], options: Options) -> Any:
    if not words:
        raise UserError("an MCP server needs a command or a URL", hint="buddy mcp add NAME -- COMMAND, or URL")
    table = tomlkit.table()
    if words[0].startswith(("http://", "https://")):
        if len(words) > 1 or options.env:
            raise UserError("a server with a URL takes no command and no --env", hint="use --header for its headers")
        table["url"] = words[0]
        if options.header:
            table["headers"] = _inline(options.header, ":", "--header")
        return table
    if options.header:
        raise UserError("--header is for a server with a URL", hint="use --env for a command")
    table["command"] = words[0]
    if words[1:]:
        table["args"] = words[1:]
    if options.env:
        table["env"] = _inline(options.env, "=", "--env")
    if any(not os.path.isabs(word) and os.path.exists(word) for word in words):  # noqa: PTH110, PTH117 - words, not yet paths
        table["cwd"] = str(Path.cwd())  # it names files of this folder
    return table


def _inline(pairs: list[str], sign: str, flag: str) -> Any:
    table = tomlkit.inline_table()
    for pair in pairs:
        name, found, value = pair.partition(sign)
        if not found or not name.strip():
            raise UserError(f"{flag} {pair[:40]!r} has no {sign!r}", hint=f"write {flag} NAME{sign}VALUE")
        table[name.strip()] = value.strip()
    return table


def _remove(options: Options) -> int:
    name, path = options.name, _file(options)

    def change(document: Any) -> None:
        servers = document.get("mcp", {}).get("servers", {})
        if name not in servers:
            named = ", ".join(sorted(servers)) or "none"
            raise UserError(f"{path} has no MCP server {name!r}. Available: {named}", exit_code=1)
        del servers[name]

    change_file(path, change, MISPLACED)
    print(f"removed {name} from {path}", file=sys.stderr)
    return 0


def _list(options: Options) -> int:
    found = _find(options)
    reports = _check(found, places_of(options), LIST_SECONDS)
    _print(reports, options, with_tools=False)
    if not reports and not options.json:
        print("no MCP servers", file=sys.stderr)
        print("hint: buddy mcp add NAME -- COMMAND, or URL", file=sys.stderr)
    return 0


def _test(options: Options) -> int:
    found = _find(options)
    if options.name:
        chosen = only(options.name, found.definitions)
        if not chosen.servers and not chosen.problems:
            if options.name in found.definitions.disabled:
                raise UserError(f"MCP server {options.name!r} is turned off", hint="remove 'enabled = false' to use it")
            known = ", ".join(one.name for one in found.definitions.servers) or "none"
            raise UserError(f"no MCP server {options.name[:80]!r}. Available: {known}")
        found = Found(chosen)
    reports = _check(found, places_of(options), 600.0)
    _print(reports, options, with_tools=True)
    return 0 if all(report.is_up for report in reports) else 1


def _find(options: Options) -> Found:
    found = find_servers(read_config(options), places_of(options), options.directory)
    if found.untrusted:
        print("note: .mcp.json is ignored until the folder is trusted: buddy trust .", file=sys.stderr)
    notes = found.definitions.notes + tuple((name, "turned off") for name in found.definitions.disabled)
    for name, note in notes:
        if (vars(options).get("name") or name) == name:
            print(f"note: MCP server {escape(name)!r}: {escape(note)}", file=sys.stderr)
    return found


def _check(found: Found, places: Places, seconds: float) -> list[ServerReport]:
    scrubber = Scrubber()
    scrubber.register_environment(os.environ)
    return asyncio.run(check_servers(found.definitions, scrubber, places, seconds))


def _print(reports: list[ServerReport], options: Options, *, with_tools: bool) -> None:
    if options.json:
        text = msgspec.json.encode({"servers": reports}).decode()
        print(escape_json(text) if sys.stdout.isatty() else text)
        return
    style = style_of(sys.stdout, os.environ)
    width = max((len(report.name) for report in reports), default=0)
    for report in reports:
        for line in _lines(report, width, style, with_tools=with_tools):
            print(line)


def _lines(report: ServerReport, width: int, style: Style, *, with_tools: bool) -> list[str]:
    name = f"{escape(report.name):{width}}"
    if not report.is_up:
        state = "needs login" if report.state == "needs_login" else "down"
        lines = [
            f"{name}  {style.red(state)}  {escape(report.problem)}  {style.dim(escape(report.reached_by))}".rstrip()
        ]
        lines += [f"    stderr: {escape(line)}" for line in report.stderr.splitlines() if line.strip()]
        return lines
    count = "1 tool" if len(report.tools) == 1 else f"{len(report.tools)} tools"
    about = f"{count}, {escape(report.server)}"
    lines = [f"{name}  {style.green('ok')}  {about}  {style.dim(escape(report.reached_by))}"]
    lines += [f"    note: {escape(report.problem)}"] if report.problem else []
    return lines + ([f"    {escape(tool)}" for tool in report.tools] if with_tools else [])


def _file(options: Options) -> Path:
    """The user's own file, existing or not."""
    found = config_finder(options)()
    return found.path if found else places_of(options).config_dir / "buddy.toml"
