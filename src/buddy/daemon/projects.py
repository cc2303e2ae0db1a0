"""Projects: folders with a name and, optionally, an agent runtime of their own.

Invariants: a folder is at most one project; a path belongs to the nearest project above it; the file is replaced
atomically under a lock, so that two processes cannot lose each other's changes.
"""

import os
from collections.abc import Callable
from pathlib import Path, PurePosixPath

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from buddy.backends.choose import check_name
from buddy.errors import ProtocolError, UserError
from buddy.protocol.ids import Ids
from buddy.shared_files import locked, replace_content

DEFAULT = "default"
"""Instead of an agent runtime: the server's."""


class Project(Struct, frozen=True, rename={"project_id": "projectId", "root_path": "rootPath"}):
    project_id: str
    name: str
    root_path: str
    agent_runtime: str | None = None


class Projects:
    """Stored in the state directory; without one, in memory."""

    def __init__(self, state_dir: Path | None, ids: Ids) -> None:
        self._path = state_dir / "projects.json" if state_dir else None
        self._ids = ids
        self._in_memory: list[Project] = []

    def all(self) -> list[Project]:
        if self._path is None:
            return list(self._in_memory)
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=list[Project])
        except FileNotFoundError:
            return []
        except (OSError, msgspec.MsgspecError) as error:
            raise ProtocolError("INTERNAL_ERROR", f"{self._path} cannot be read: {error}") from error

    def create(self, name: str, root_path: str, agent_runtime: str | None) -> Project:
        name = name.strip()
        if not name or not os.path.isabs(root_path):  # noqa: PTH117 - plain text, perhaps a path on another machine
            raise ProtocolError("INVALID_REQUEST", "a project needs a name and an absolute rootPath")
        project = Project(self._ids("proj"), name, os.path.realpath(root_path), _runtime(agent_runtime))
        self._change(lambda known: _add(known, project))
        return project

    def update(self, project_id: str, name: str | None, agent_runtime: str | None) -> Project:
        """Change what is given."""
        project = self._find(project_id)
        if name is not None:
            project = replace(project, name=name.strip() or project.name)
        if agent_runtime is not None:
            project = replace(project, agent_runtime=_runtime(agent_runtime))
        self._change(lambda known: _add(_without(known, project_id), project))
        return project

    def delete(self, project_id: str) -> None:
        self._find(project_id)
        self._change(lambda known: _without(known, project_id))

    def nearest(self, root: str) -> Project | None:
        """The nearest project above a path."""
        return nearest_project(self.all(), os.path.realpath(root))

    def _find(self, project_id: str) -> Project:
        for project in self.all():
            if project.project_id == project_id:
                return project
        raise ProtocolError("INVALID_REQUEST", f"no project {project_id[:80]!r}", detail="see 'buddy project list'")

    def _change(self, change: Callable[[list[Project]], list[Project]]) -> None:
        if self._path is None:
            self._in_memory = change(self._in_memory)
            return
        with locked(self._path):
            replace_content(self._path, msgspec.json.encode(change(self.all())))


def nearest_project(projects: list[Project], root: str) -> Project | None:
    above = {str(path) for path in (PurePosixPath(root), *PurePosixPath(root).parents)}
    inside = [project for project in projects if project.root_path in above]
    return max(inside, key=lambda project: len(project.root_path), default=None)


def _runtime(name: str | None) -> str | None:
    """A valid agent runtime; None is the server's default."""
    if name is None or name == DEFAULT:
        return None
    try:
        return check_name(name)
    except UserError as error:
        raise ProtocolError("INVALID_REQUEST", str(error), detail=error.hint) from error


def _without(known: list[Project], project_id: str) -> list[Project]:
    return [project for project in known if project.project_id != project_id]


def _add(known: list[Project], project: Project) -> list[Project]:
    for other in known:
        if other.root_path == project.root_path:
            message = f"{project.root_path} already is the project {other.name}"
            hint = f"change it with: buddy project set {other.name} --agent-runtime NAME"
            raise ProtocolError("INVALID_REQUEST", message, detail=hint)
        if other.name == project.name:
            raise ProtocolError("INVALID_REQUEST", f"the project {other.name} already exists, in {other.root_path}")
    return [*known, project]
