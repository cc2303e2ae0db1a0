"""Requests about the past of a session, and the profiles and commands to choose from."""

import asyncio
import os
from collections import deque
from collections.abc import Callable, Mapping

from msgspec.structs import replace

from buddy.config.resolve import profile_names, resolve_profile
from buddy.config.settings import Config
from buddy.daemon.connection import PeerConnection
from buddy.daemon.dispatch import Handlers, on_record, on_runtime
from buddy.daemon.handlers.host import Host
from buddy.daemon.handlers.paths import check_path
from buddy.errors import UserError
from buddy.log.contract import Log, SessionRecord
from buddy.protocol import history_requests as ask
from buddy.protocol.command_requests import ListCommands, ListCommandsReply
from buddy.protocol.shapes import Shape
from buddy.scrub import Scrubber
from buddy.sessions import marks
from buddy.sessions.past import read_pages


class HistoryRequests:
    def __init__(self, log: Log, host: Host, scrubber: Scrubber) -> None:
        self._log = log
        self._host = host
        self._scrubber = scrubber

    def handlers(self) -> Handlers:
        return {
            "list_marks": on_record(ask.ListMarks, self.list_marks),
            "list_profiles": on_runtime(ask.ListProfiles, self.list_profiles),
            "list_commands": on_runtime(ListCommands, self.list_commands),
        }

    async def list_marks(self, _peer: PeerConnection, _request: ask.ListMarks, record: SessionRecord) -> Shape:
        found: deque[ask.Mark] = deque(maxlen=marks.MAX_MARKS)
        async for page in read_pages(self._log, record.session_id, types=marks.TYPES):
            found.extend(marks.marks_of(page))
        return ask.ListMarksReply(tuple(found))

    async def list_commands(self, _peer: PeerConnection, request: ListCommands) -> Shape:
        check_path(request.root_path)
        root = os.path.realpath(request.root_path)  # noqa: ASYNC240 - a few links
        listed = await asyncio.to_thread(self._host.texts.list_commands, root)
        commands = (*listed.commands, *self._host.mcp.list_prompts(root))
        return _hide_secrets(replace(listed, commands=commands), self._scrubber.registered)

    async def list_profiles(self, _peer: PeerConnection, _request: ask.ListProfiles) -> Shape:
        """Names and models alone: neither keys nor addresses."""
        config, env = self._host.configuration.current, self._host.configuration.env
        try:
            active = resolve_profile(config, env).profile
        except UserError:
            active = ""  # each profile says why it cannot be used
        return ask.ListProfilesReply(
            tuple(_profile(name, config, env, active == name) for name in profile_names(config, env))
        )


def _hide_secrets(listed: ListCommandsReply, hide: Callable[[str], str]) -> ListCommandsReply:
    """Names and descriptions come from files and servers, which may repeat a secret."""
    commands = tuple(
        replace(
            one,
            name=hide(one.name),
            description=hide(one.description),
            argument_hint=one.argument_hint and hide(one.argument_hint),
        )
        for one in listed.commands
    )
    return ListCommandsReply(commands, tuple(map(hide, listed.problems)))


def _profile(name: str, config: Config, env: Mapping[str, str], is_default: bool) -> ask.ProfileInfo:
    try:
        found = resolve_profile(config, env, name)
    except UserError as error:
        return ask.ProfileInfo(name, "", "", is_default, str(error))
    return ask.ProfileInfo(name, found.model, found.api, is_default)
