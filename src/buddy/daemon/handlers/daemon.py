"""Requests about the runtime itself: hello, status, trust, projects, shutdown."""

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec.structs import replace

from buddy.config.mcp import McpServer
from buddy.daemon.connection import PeerConnection
from buddy.daemon.dispatch import Handlers, on_runtime
from buddy.daemon.handlers.host import Host
from buddy.daemon.handlers.paths import check_path
from buddy.daemon.projects import Project
from buddy.errors import ProtocolError
from buddy.protocol import requests as ask
from buddy.protocol.attention_requests import SetAttention
from buddy.protocol.codes import VERSION
from buddy.protocol.daemon_requests import RestartDaemon
from buddy.protocol.mcp_requests import OfferedMcpServer, OfferMcpServers
from buddy.protocol.open_file_requests import AnswerFile, OfferFiles
from buddy.protocol.request_table import CAPABILITIES
from buddy.protocol.shapes import Shape
from buddy.sessions.sessions import Sessions
from buddy.targets.choose import sandbox_levels


class DaemonRequests:
    def __init__(self, sessions: Sessions, clock: Callable[[], int], host: Host) -> None:
        self._sessions = sessions
        self._clock = clock
        self._host = host

    def handlers(self) -> Handlers:
        return {
            "hello": on_runtime(ask.Hello, self.hello),
            "ping": on_runtime(ask.Ping, self.ping),
            "offer_mcp_servers": on_runtime(OfferMcpServers, self.offer_mcp_servers),
            "offer_files": on_runtime(OfferFiles, self.offer_files),
            "answer_file": on_runtime(AnswerFile, self.answer_file),
            "set_attention": on_runtime(SetAttention, self.set_attention),
            "trust_folder": on_runtime(ask.TrustFolder, self.trust_folder),
            "create_project": on_runtime(ask.CreateProject, self.create_project),
            "update_project": on_runtime(ask.UpdateProject, self.update_project),
            "delete_project": on_runtime(ask.DeleteProject, self.delete_project),
            "list_projects": on_runtime(ask.ListProjects, self.list_projects),
            "project_options": on_runtime(ask.ProjectOptions, self.project_options),
            "daemon_status": on_runtime(ask.DaemonStatus, self.daemon_status),
            "shutdown": on_runtime(ask.Shutdown, self.shutdown),
            "restart_daemon": on_runtime(RestartDaemon, self.restart),
        }

    async def hello(self, peer: PeerConnection, request: ask.Hello) -> Shape:
        peer.introduce(request.client_name)
        # The sandbox levels are looked up, not probed: a client that only says hello must not wait for probes.
        known = ("buddyd", self._host.status().version, VERSION, CAPABILITIES, sandbox_levels())
        if not peer.is_local:
            return ask.HelloReply(*known)
        configuration = self._host.configuration
        shared = self._host.shared_log
        log = shared.address.shown if shared else ""
        return ask.HelloReply(*known, configuration.current.source, configuration.key_variables, log)

    async def ping(self, _peer: PeerConnection, _request: ask.Ping) -> Shape:
        return ask.PingReply(True, self._clock())

    async def set_attention(self, peer: PeerConnection, request: SetAttention) -> Shape:
        peer.is_looking = request.looking
        return ask.AcceptedReply(accepted=True)

    async def offer_mcp_servers(self, _peer: PeerConnection, request: OfferMcpServers) -> Shape:
        try:
            servers = {one.name: _server(one) for one in request.servers}
        except ValueError as error:
            raise ProtocolError("INVALID_REQUEST", str(error)) from error
        await self._sessions.record(request.session_id)
        self._host.mcp.offer(request.session_id, servers)
        return ask.AcceptedReply(accepted=True)

    async def offer_files(self, peer: PeerConnection, request: OfferFiles) -> Shape:
        await self._sessions.record(request.session_id)
        self._host.open_files.offer(peer, request)
        return ask.AcceptedReply(accepted=True)

    async def answer_file(self, peer: PeerConnection, request: AnswerFile) -> Shape:
        return ask.AcceptedReply(accepted=self._host.open_files.answer(peer, request))

    async def trust_folder(self, _peer: PeerConnection, request: ask.TrustFolder) -> Shape:
        check_path(request.root_path)
        return ask.TrustFolderReply(self._host.trust(request.root_path, trusted=request.trusted))

    async def create_project(self, peer: PeerConnection, request: ask.CreateProject) -> Shape:
        check_path(request.root_path)
        wanted = (request.name, request.root_path, request.agent_runtime)
        project = await self._host.agents.projects.create(*wanted, peer.roles.user)
        return ask.CreateProjectReply(project.project_id, self._host.agents.warn_about(project))

    async def update_project(self, peer: PeerConnection, request: ask.UpdateProject) -> Shape:
        wanted = (request.project_id, request.name, request.agent_runtime)
        project = await self._host.agents.projects.update(*wanted, peer.roles.user)
        return ask.UpdateProjectReply(project.project_id, self._host.agents.warn_about(project))

    async def delete_project(self, peer: PeerConnection, request: ask.DeleteProject) -> Shape:
        await self._host.agents.projects.delete(request.project_id, peer.roles.user)
        return ask.DeleteProjectReply(True)

    async def list_projects(self, peer: PeerConnection, _request: ask.ListProjects) -> Shape:
        await self._host.agents.projects.refresh()
        own = self._host.agents.projects.of(peer.roles.user)
        return ask.ListProjectsReply(tuple(map(_shown_project, own)))

    async def project_options(self, _peer: PeerConnection, _request: ask.ProjectOptions) -> Shape:
        return ask.ProjectOptionsReply(self._host.agents.runtimes())

    async def daemon_status(self, peer: PeerConnection, _request: ask.DaemonStatus) -> Shape:
        status = self._host.status()
        if not peer.roles.is_owner:
            return replace(status, config=None, listen=None, token_file=None, fleet=())
        admission = self._host.admission
        cost = round(await admission.cost_today(), 6)
        return replace(status, cost_usd_today=cost, cost_usd_per_day=admission.cost_usd_per_day)

    async def shutdown(self, peer: PeerConnection, _request: ask.Shutdown) -> Shape:
        peer.after_reply(self._host.stop)
        return ask.AcceptedReply(True)

    async def restart(self, peer: PeerConnection, request: RestartDaemon) -> Shape:
        if self._host.web is None:
            raise ProtocolError("INVALID_REQUEST", "this runtime ends with its command; only a daemon is restarted")
        peer.after_reply(lambda: self._host.operations.restart(request))
        return ask.AcceptedReply(True)


def _shown_project(project: Project) -> dict[str, Any]:
    shown: dict[str, Any] = msgspec.to_builtins(project)
    del shown["user"]
    return shown


def _server(offered: OfferedMcpServer) -> McpServer:
    return McpServer(
        command=offered.command, args=offered.args, env=offered.env, url=offered.url, headers=offered.headers
    )
