"""Projects: folders with a name and, optionally, an agent runtime of their own.

Invariants: a folder is at most one project; a path belongs to the nearest project above it; the file is replaced
atomically under a lock, so that two processes cannot lose each other's changes.
"""

import os
from pathlib import Path, PurePosixPath

import msgspec
from msgspec import Struct

from buddy.backends.choose import check_name
from buddy.errors import ProtocolError, UserError
from buddy.protocol.ids import Ids
from buddy.shared_files import locked, replace_content


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
        if agent_runtime is not None:
            try:
                check_name(agent_runtime)
            except UserError as error:
                raise ProtocolError("INVALID_REQUEST", str(error), detail=error.hint) from error
        project = Project(self._ids("proj"), name, os.path.realpath(root_path), agent_runtime)
        if self._path is None:
            self._in_memory = _add(self._in_memory, project)
            return project
        with locked(self._path):
            replace_content(self._path, msgspec.json.encode(_add(self.all(), project)))
        return project

    def runtime_of(self, root: str) -> str | None:
        """The agent runtime of the nearest project above a path, if it has one of its own."""
        found = nearest_project(self.all(), os.path.realpath(root))
        return found.agent_runtime if found else None


def nearest_project(projects: list[Project], root: str) -> Project | None:
    above = {str(path) for path in (PurePosixPath(root), *PurePosixPath(root).parents)}
    inside = [project for project in projects if project.root_path in above]
    return max(inside, key=lambda project: len(project.root_path), default=None)


def _add(known: list[Project], project: Project) -> list[Project]:
    for other in known:
        if other.root_path == project.root_path:
            raise ProtocolError("INVALID_REQUEST", f"{project.root_path} already is the project {other.name}")
        if other.name == project.name:
            raise ProtocolError("INVALID_REQUEST", f"the project {other.name} already exists, in {other.root_path}")
    return [*known, project]
