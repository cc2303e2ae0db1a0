"""`buddy project create|set|delete|list|show`: named folders, optionally with an agent runtime of their own."""

import asyncio
import os
import sys
from typing import Any

import msgspec

from buddy.cli.connect import async_client
from buddy.cli.options import Options
from buddy.client.client import Client
from buddy.errors import UserError
from buddy.protocol.requests import (
    CreateProject,
    CreateProjectReply,
    DeleteProject,
    DeleteProjectReply,
    ListProjects,
    ListProjectsReply,
    ProjectOptions,
    ProjectOptionsReply,
    UpdateProject,
    UpdateProjectReply,
)
from buddy.terminal.escape import escape, escape_json


def project(options: Options) -> int:
    return asyncio.run(_work(options))


async def _work(options: Options) -> int:
    async with async_client(options, "cli") as client:
        match options.action:
            case "create":
                return await _create(client, options)
            case "set":
                return await _set(client, options)
            case "delete":
                return await _delete(client, options)
            case "show":
                return await _show(client, options)
            case _:
                return await _list(client, options)


async def _create(client: Client, options: Options) -> int:
    root = os.path.realpath(options.directory)  # noqa: ASYNC240 - one look, nobody waits
    if not os.path.isdir(root):  # noqa: ASYNC240, PTH112 - as above
        raise UserError(f"{root} is not a directory", hint="-C names the project's folder")
    made = await client.request(CreateProject(options.name, root, options.agent_runtime), CreateProjectReply)
    _warn(made.warning, options.name)
    print(made.project_id)
    return 0


async def _set(client: Client, options: Options) -> int:
    if options.agent_runtime is None and options.new_name is None:
        raise UserError("nothing to change", hint="--agent-runtime NAME or --name NEW; see 'buddy project set --help'")
    projects = (await client.request(ListProjects(), ListProjectsReply)).projects
    folder = os.path.realpath(options.directory)  # noqa: ASYNC240 - one look, nobody waits
    found = _find_by_name(projects, options.name) if options.name else _find_containing(projects, folder)
    if found is None:
        raise UserError(f"{folder} is not in a project", hint="name one: buddy project set NAME; see 'project list'")
    wanted = UpdateProject(found["projectId"], options.new_name, options.agent_runtime)
    changed = await client.request(wanted, UpdateProjectReply)
    _warn(changed.warning, options.new_name or found["name"])
    projects = (await client.request(ListProjects(), ListProjectsReply)).projects
    print(_line(_find_by_name(projects, changed.project_id)))
    return 0


async def _delete(client: Client, options: Options) -> int:
    projects = (await client.request(ListProjects(), ListProjectsReply)).projects
    found = _find_by_name(projects, options.name)
    await client.request(DeleteProject(found["projectId"]), DeleteProjectReply)
    print(f"deleted the project {escape(found['name'])}", file=sys.stderr)
    return 0


def _warn(warning: str | None, name: str) -> None:
    if warning:
        print(f"warning: {escape(warning)}", file=sys.stderr)
        print(f"hint: buddy project set {escape(name)} --agent-runtime native", file=sys.stderr)


async def _list(client: Client, options: Options) -> int:
    projects = (await client.request(ListProjects(), ListProjectsReply)).projects
    if options.json:
        return _print_json({"projects": projects})
    for found in projects:
        print(_line(found))
    if not projects:
        print("no projects; create one with: buddy project create NAME", file=sys.stderr)
    return 0


async def _show(client: Client, options: Options) -> int:
    """One project by its name or id, or the one this folder is in; and the available agent runtimes."""
    projects = (await client.request(ListProjects(), ListProjectsReply)).projects
    folder = os.path.realpath(options.directory)  # noqa: ASYNC240 - one look, nobody waits
    found = _find_by_name(projects, options.name) if options.name else _find_containing(projects, folder)
    runtimes = (await client.request(ProjectOptions(), ProjectOptionsReply)).agent_runtimes
    if options.json:
        return _print_json({"project": found, "agent_runtimes": runtimes})
    if found is not None:
        print(_line(found))
    else:
        print("this folder is not in a project; create one with: buddy project create NAME", file=sys.stderr)
    effective = (found or {}).get("agent_runtime") or runtimes.default
    print(f"agent runtime: {escape(str(effective))} (installed: {escape(', '.join(runtimes.available))})")
    return 0


def _find_by_name(projects: tuple[dict[str, Any], ...], name: str) -> dict[str, Any]:
    for found in projects:
        if name in (found["name"], found["projectId"]):
            return found
    raise UserError(f"no project {name!r}", hint="see 'buddy project list'")


def _find_containing(projects: tuple[dict[str, Any], ...], folder: str) -> dict[str, Any] | None:
    inside = [found for found in projects if f"{folder}/".startswith(f"{found['rootPath'].rstrip('/')}/")]
    return max(inside, key=lambda found: len(found["rootPath"]), default=None)


def _line(found: dict[str, Any]) -> str:
    runtime = found.get("agent_runtime") or "server's default"
    return escape(f"{found['projectId']}  {found['name']}  {found['rootPath']}  {runtime}")


def _print_json(value: object) -> int:
    text = msgspec.json.encode(value).decode()
    print(escape_json(text) if sys.stdout.isatty() else text)
    return 0
