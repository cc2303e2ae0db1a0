"""The agent's side of the Agent Client Protocol: its methods, each as requests to the daemon.

Invariants: `initialize` is answered without waiting for anything; the answer that opens a session precedes its
notifications, except for the history that a client asked to see; the end of the editor ends no run.
"""

import contextlib
import os
from datetime import UTC, datetime

from buddy.client.client import Client
from buddy.editor import shapes
from buddy.editor.buffers import offer_files, unsaved_buffers
from buddy.editor.commands import run_command, show_commands
from buddy.editor.json_rpc import AUTH_REQUIRED, INVALID_PARAMS, Json, Lines, Peer, RpcError
from buddy.editor.mcp_servers import offered_servers
from buddy.editor.open_sessions import OpenSessions, Runtime
from buddy.editor.prompts import message_text, read_prompt
from buddy.editor.session import EditorSession
from buddy.editor.settings import request_for_mode, request_for_option
from buddy.errors import ProtocolError
from buddy.protocol.history_requests import ListProfiles, ListProfilesReply, ProfileInfo
from buddy.protocol.mcp_requests import OfferMcpServers
from buddy.protocol.requests import (
    AcceptedReply,
    DeleteSession,
    DeleteSessionReply,
    GetSnapshot,
    GetSnapshotReply,
    ListSessions,
    ListSessionsReply,
    SetApprovalPolicy,
    SetApprovalPolicyReply,
    SwitchModelReply,
)
from buddy.version import VERSION

PROTOCOL = 1
LISTED = 50
AUTH_METHOD, LOGIN_METHOD = "buddy", "buddy-login"


class Agent:
    def __init__(self, lines: Lines, runtime: Runtime) -> None:
        self._runtime = runtime
        methods = {
            "initialize": self._initialize,
            "authenticate": self._authenticate,
            "session/new": self._new,
            "session/load": self._load,
            "session/resume": self._resume,
            "session/list": self._list,
            "session/close": self._close,
            "session/delete": self._delete,
            "session/prompt": self._prompt,
            "session/set_mode": self._set_mode,
            "session/set_config_option": self._set_config_option,
        }
        self._peer = Peer(lines, methods, {"session/cancel": self._cancel})
        self._sessions = OpenSessions(self._peer, runtime)

    async def run(self) -> None:
        """Serve until the editor is gone."""
        try:
            await self._peer.run()
        finally:
            await self._sessions.leave()

    async def _initialize(self, params: Json) -> Json:
        wanted = shapes.read(params, shapes.Initialize)
        capabilities = wanted.client_capabilities or shapes.ClientCapabilities()
        self._sessions.capabilities = capabilities
        methods: list[Json] = [
            {"id": AUTH_METHOD, "name": "Your configuration", "description": "Use the models of your buddy.toml"}
        ]
        if capabilities.has_login_terminal:
            login = {"id": LOGIN_METHOD, "name": "Log in", "type": "terminal", "args": ["--login"]}
            methods.append({**login, "description": "Log in to a model with an account, in a terminal"})
        return {
            "protocolVersion": PROTOCOL,
            "agentInfo": {"name": "buddy", "title": "Buddy", "version": VERSION},
            "agentCapabilities": {
                "loadSession": True,
                "promptCapabilities": {"image": True, "embeddedContext": True},
                "mcpCapabilities": {"http": True},
                "sessionCapabilities": {"list": {}, "resume": {}, "close": {}, "delete": {}},
            },
            "authMethods": methods,
        }

    async def _authenticate(self, params: Json) -> Json:
        method = shapes.read(params, shapes.Authenticate).method_id
        if method != AUTH_METHOD:
            raise RpcError(INVALID_PARAMS, f"unknown authentication method {method[:40]!r}. Available: {AUTH_METHOD}")
        profiles = await _profiles(await self._sessions.client())
        if profiles and all(profile.problem for profile in profiles):
            raise RpcError(AUTH_REQUIRED, profiles[0].problem or "no model is configured")
        return {}

    # --- opening sessions -------------------------------------------------------------------------------------------

    async def _new(self, params: Json) -> Json:
        wanted = shapes.read(params, shapes.NewSession)
        cwd, servers = _directory(wanted.cwd), offered_servers(wanted.mcp_servers)
        client = await self._sessions.client()
        session_id = await self._runtime.start(client, cwd)
        session = self._sessions.add(session_id, client, servers)
        await session.read_history(is_shown=False)
        return {"sessionId": session_id, **await self._opened(session, client)}

    async def _load(self, params: Json) -> Json:
        return await self._reopen(shapes.read(params, shapes.OpenSession), is_shown=True)

    async def _resume(self, params: Json) -> Json:
        return await self._reopen(shapes.read(params, shapes.OpenSession), is_shown=False)

    async def _reopen(self, wanted: shapes.OpenSession, *, is_shown: bool) -> Json:
        servers = offered_servers(wanted.mcp_servers)
        client = await self._sessions.client()
        await self._sessions.remove(wanted.session_id)
        session = self._sessions.add(wanted.session_id, client, servers)
        try:
            await session.read_history(is_shown=is_shown)
            await client.attach(wanted.session_id, session.last_seq)
        except ProtocolError:
            await self._sessions.remove(wanted.session_id)
            raise
        return await self._opened(session, client)

    async def _opened(self, session: EditorSession, client: Client) -> Json:
        """The settings for the response; events are shown once it was sent."""
        snapshot = await client.request(GetSnapshot(), GetSnapshotReply, session.session_id)
        settings = session.settings
        if snapshot.model is not None:
            settings.profile, settings.model = snapshot.model.profile, snapshot.model.model
        settings.policy = snapshot.approval_policy or settings.policy
        settings.profiles = await _profiles(client)
        self._sessions.in_background(_begin(session, client))
        return {"modes": settings.modes(), "configOptions": session.settings.options()}

    async def _list(self, params: Json) -> Json:
        wanted = shapes.read(params, shapes.ListSessions)
        root = _real(wanted.cwd) if wanted.cwd else None
        client = await self._sessions.client()
        page = await client.request(ListSessions(LISTED, root, cursor=wanted.cursor), ListSessionsReply)
        rows = [
            {
                "sessionId": row.session_id,
                "cwd": row.repo.root_path,
                "title": row.title,
                "updatedAt": datetime.fromtimestamp(row.updated_at / 1000, UTC).isoformat(),
            }
            for row in page.sessions
            if row.agent is None
        ]
        return {"sessions": rows, **({"nextCursor": page.next_cursor} if page.next_cursor else {})}

    async def _close(self, params: Json) -> Json:
        session = self._sessions.find(params)
        await session.cancel()
        (await self._sessions.client()).forget(session.session_id)
        await self._sessions.remove(session.session_id)
        return {}

    async def _delete(self, params: Json) -> Json:
        session_id = shapes.read(params, shapes.NamedSession).session_id
        client = await self._sessions.client()
        client.forget(session_id)
        await self._sessions.remove(session_id)
        await client.request(DeleteSession(), DeleteSessionReply, session_id)
        return {}

    # --- using them -------------------------------------------------------------------------------------------------

    async def _prompt(self, params: Json) -> Json:
        session = self._sessions.find(params)
        prompt = read_prompt(shapes.read(params, shapes.Prompt).prompt)
        client = await self._sessions.client()
        done = await run_command(session, client, prompt.text)
        if done is not None:
            return done
        if session.servers:  # also after a restart of the runtime, which has forgotten them
            await client.request(OfferMcpServers(session.session_id, session.servers), AcceptedReply)
        capabilities, buffers = self._sessions.capabilities, dict[str, str]()
        if capabilities.reads_files:
            await offer_files(client, session.session_id, writes=capabilities.writes_files)
            buffers = await unsaved_buffers(self._peer, session.session_id, prompt)
        return await session.prompt(message_text(prompt, buffers), prompt.images)

    def _cancel(self, params: Json) -> None:
        self._sessions.in_background(self._sessions.find(params).cancel())

    async def _set_mode(self, params: Json) -> Json:
        session = self._sessions.find(params)
        await self._set_policy(session, request_for_mode(shapes.read(params, shapes.SetMode).mode_id))
        return {}

    async def _set_config_option(self, params: Json) -> Json:
        session = self._sessions.find(params)
        wanted = shapes.read(params, shapes.SetConfigOption)
        request = request_for_option(wanted.config_id, wanted.value)
        if isinstance(request, SetApprovalPolicy):
            await self._set_policy(session, request)
        else:
            client = await self._sessions.client()
            switched = await client.request(request, SwitchModelReply, session.session_id)
            session.settings.profile, session.settings.model = switched.profile, switched.model
        return {"configOptions": session.settings.options()}

    async def _set_policy(self, session: EditorSession, request: SetApprovalPolicy) -> None:
        client = await self._sessions.client()
        before = session.settings.mode
        reply = await client.request(request, SetApprovalPolicyReply, session.session_id)
        session.settings.policy, session.settings.plan = reply.policy, reply.plan
        await session.show_settings(mode_changed=session.settings.mode != before)


async def _begin(session: EditorSession, client: Client) -> None:
    """Runs after the response was written: some editors do not expect a notification before it."""
    with contextlib.suppress(ProtocolError, ConnectionError):
        await show_commands(session, client)
    session.start()
    session.ask_again()


async def _profiles(client: Client) -> tuple[ProfileInfo, ...]:
    return (await client.request(ListProfiles(), ListProfilesReply)).profiles


def _real(path: str) -> str:
    return os.path.realpath(path)


def _directory(cwd: str) -> str:
    if not os.path.isabs(cwd) or not os.path.isdir(cwd):  # noqa: PTH112, PTH117 - a path of the editor, as text
        raise RpcError(INVALID_PARAMS, f"cwd {cwd[:200]!r} is not an absolute path of a directory")
    return _real(cwd)
