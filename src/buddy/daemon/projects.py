"""Projects: folders with a name and, optionally, an agent runtime of their own.

Invariants: a folder is at most one project; a path belongs to the nearest project above it; of two
processes that change them at the same time, neither loses the other's change.
"""

import os
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Protocol

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from buddy.backends.choose import check_name
from buddy.errors import ProtocolError, UserError
from buddy.log.contract import Documents, Log
from buddy.protocol.ids import Ids
from buddy.shared_files import locked, replace_content

DEFAULT = "default"
"""Instead of an agent runtime: the server's."""
DOCUMENT = "projects"


class Project(Struct, frozen=True, rename={"project_id": "projectId", "root_path": "rootPath"}):
    project_id: str
    name: str
    root_path: str
    agent_runtime: str | None = None
    user: str | None = None


class ProjectStore(Protocol):
    """Where the projects are: in a file, in memory, or in a shared log."""

    def read(self) -> list[Project]:
        """The projects as of the last `refresh`, or now where that is cheap."""
        ...

    async def change(self, change: "Callable[[list[Project]], list[Project]]") -> None: ...

    async def refresh(self) -> None: ...


class Projects:
    """A user has their own, and sees no others. `hide` masks secrets in names."""

    def __init__(self, store: ProjectStore, ids: Ids, hide: Callable[[str], str] = str) -> None:
        self._store = store
        self._ids = ids
        self._hide = hide

    async def refresh(self) -> None:
        """Read what other daemons have changed."""
        await self._store.refresh()

    def all(self) -> list[Project]:
        return [replace(project, name=self._hide(project.name)) for project in self._store.read()]

    def of(self, user: str | None) -> list[Project]:
        return [project for project in self.all() if project.user == user]

    async def create(self, name: str, root_path: str, agent_runtime: str | None, user: str | None = None) -> Project:
        name = self._hide(name.strip())
        if not name:
            raise ProtocolError("INVALID_REQUEST", "a project needs a name")
        root = os.path.realpath(root_path)  # noqa: ASYNC240 - one look, nobody waits
        project = Project(self._ids("proj"), name, root, _runtime(agent_runtime), user)
        await self._store.change(lambda known: _add(known, project))
        return project

    async def update(
        self, project_id: str, name: str | None, agent_runtime: str | None, user: str | None = None
    ) -> Project:
        """Change what is given."""
        await self.refresh()
        project = self._find(project_id, user)
        if name is not None:
            project = replace(project, name=self._hide(name.strip()) or project.name)
        if agent_runtime is not None:
            project = replace(project, agent_runtime=_runtime(agent_runtime))
        await self._store.change(lambda known: _add(_without(known, project_id), project))
        return project

    async def delete(self, project_id: str, user: str | None = None) -> None:
        await self.refresh()
        self._find(project_id, user)
        await self._store.change(lambda known: _without(known, project_id))

    def nearest(self, root: str, user: str | None = None) -> Project | None:
        """The nearest project above a path."""
        known = self.of(user)
        return nearest_project(known, os.path.realpath(root)) if known else None

    def _find(self, project_id: str, user: str | None) -> Project:
        for project in self.of(user):
            if project.project_id == project_id:
                return project
        raise ProtocolError("INVALID_REQUEST", f"no project {project_id[:80]!r}", detail="see 'buddy project list'")


class ProjectsInMemory:
    def __init__(self) -> None:
        self._known: list[Project] = []

    def read(self) -> list[Project]:
        return list(self._known)

    async def change(self, change: "Callable[[list[Project]], list[Project]]") -> None:
        self._known = change(self._known)

    async def refresh(self) -> None: ...


class ProjectFile:
    def __init__(self, state_dir: Path) -> None:
        self._path = state_dir / "projects.json"

    def read(self) -> list[Project]:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=list[Project])
        except FileNotFoundError:
            return []
        except (OSError, msgspec.MsgspecError) as error:
            raise ProtocolError("INTERNAL_ERROR", f"{self._path} cannot be read: {error}") from error

    async def change(self, change: "Callable[[list[Project]], list[Project]]") -> None:
        with locked(self._path):
            replace_content(self._path, msgspec.json.encode(change(self.read())))

    async def refresh(self) -> None: ...


class SharedProjects:
    """Projects in a shared log: every daemon has them, as of its last `refresh`."""

    def __init__(self, documents: Documents) -> None:
        self._documents = documents
        self._known: list[Project] = []
        self._version = 0

    def read(self) -> list[Project]:
        return list(self._known)

    async def change(self, change: "Callable[[list[Project]], list[Project]]") -> None:
        while True:
            await self.refresh()
            changed = msgspec.json.encode(change(self._known)).decode()
            if await self._documents.write_document(DOCUMENT, changed, self._version):
                await self.refresh()
                return

    async def refresh(self) -> None:
        found = await self._documents.read_document(DOCUMENT)
        if found is not None and found[1] != self._version:
            self._known = msgspec.json.decode(found[0], type=list[Project])
            self._version = found[1]


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
    for other in (one for one in known if one.user == project.user):
        if other.root_path == project.root_path:
            message = f"{project.root_path} already is the project {other.name}"
            hint = f"change it with: buddy project set {other.name} --agent-runtime NAME"
            raise ProtocolError("INVALID_REQUEST", message, detail=hint)
        if other.name == project.name:
            raise ProtocolError("INVALID_REQUEST", f"the project {other.name} already exists, in {other.root_path}")
    return [*known, project]


def choose_store(state_dir: Path, shared: Documents | None, log: Log | None) -> ProjectStore:
    """Where projects are kept: with a log that several daemons share, in memory with any other, or in a file."""
    if shared is not None:
        return SharedProjects(shared)
    return ProjectsInMemory() if log is not None else ProjectFile(state_dir)
