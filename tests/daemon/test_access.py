"""Roles: each row of the request table against every role that is below it."""

from pathlib import Path
from typing import get_args

import pytest

from buddy.daemon.handlers.all import make_handlers
from buddy.protocol import queue_requests as queue
from buddy.protocol import requests as ask
from buddy.protocol.blob_requests import UploadBlob
from buddy.protocol.codes import Role
from buddy.protocol.command_requests import ListCommands
from buddy.protocol.grant_requests import RevokeGrant
from buddy.protocol.mcp_requests import OfferMcpServers
from buddy.protocol.node_requests import DrainNode
from buddy.protocol.open_file_requests import AnswerFile, OfferFiles
from buddy.protocol.question_requests import AnswerQuestion
from buddy.protocol.request_table import CAPABILITIES, REQUESTS, Access, RequestRow
from buddy.protocol.shapes import Repo, Shape
from tests.daemon.test_connection import code_of, minted, stranger
from tests.harness.runtime import RuntimeClient, RuntimeHost, scripted_host

RANKS: tuple[Access, ...] = get_args(Access)
RUN, APPROVAL = "run_1", "appr_1"


def example(kind: str, session_id: str) -> Shape:
    found: dict[str, Shape] = {
        "start_session": ask.StartSession("interactive", "default", "local", Repo("/")),
        "attach_session": ask.AttachSession(session_id, 0),
        "resume_session": ask.ResumeSession(session_id, 0),
        "send_user_message": ask.SendUserMessage(session_id, "msg_1", "hi"),
        "submit_approval": ask.SubmitApproval(session_id, RUN, APPROVAL, "approve"),
        "cancel_run": ask.CancelRun(session_id, RUN),
        "rename_session": ask.RenameSession("name"),
        "archive_session": ask.ArchiveSession(True),
        "set_approval_policy": ask.SetApprovalPolicy("all"),
        "revoke_grant": RevokeGrant(APPROVAL),
        "read_events": ask.ReadEvents(0),
        "read_blob": ask.ReadBlob("0" * 64),
        "upload_blob": UploadBlob("R0lGODlhAwACAAAAOw==", last=True),
        "steer_run": queue.SteerRun(RUN, "left"),
        "queue_message": queue.QueueMessage("msg_2", "later"),
        "list_queue": queue.ListQueue(),
        "unqueue_message": queue.UnqueueMessage("msg_2"),
        "fork_session": ask.ForkSession(1),
        "prune_session": ask.PruneSession(2),
        "mint_token": ask.MintToken("driver"),
        "revoke_token": ask.RevokeToken("att_1"),
        "trust_folder": ask.TrustFolder("/", True),
        "create_project": ask.CreateProject("name", "/"),
        "update_project": ask.UpdateProject("proj_1"),
        "delete_project": ask.DeleteProject("proj_1"),
        "drain_node": DrainNode("a"),
        "list_commands": ListCommands("/"),
        "offer_mcp_servers": OfferMcpServers(session_id),
        "offer_files": OfferFiles(session_id),
        "answer_file": AnswerFile("file_1"),
        "answer_question": AnswerQuestion("ques_1", "decline"),
    }
    return found[kind] if kind in found else REQUESTS[kind].payload()


async def check_refused(host: RuntimeHost, owner: RuntimeClient, kind: str, row: RequestRow, role: Role | None) -> None:
    token = await minted(owner, role) if role else None
    async with stranger(host) as peer:
        if token is not None:
            await peer.api.attach(owner.session_id, 0, token)
        refusal = await code_of(peer, example(kind, owner.session_id), row.reply, owner.session_id)
        assert refusal == "ATTACH_FORBIDDEN", (kind, role)


@pytest.mark.parametrize("kind", [kind for kind, row in REQUESTS.items() if row.access not in ("anyone", "client")])
async def test_a_request_is_refused_to_every_role_below_its_own(tmp_path: Path, kind: str) -> None:
    row = REQUESTS[kind]
    async with scripted_host(tmp_path) as host, host.client() as owner:
        await owner.start()
        await check_refused(host, owner, kind, row, None)
        for role in get_args(Role):
            if RANKS.index(role) < RANKS.index(row.access):
                await check_refused(host, owner, kind, row, role)


@pytest.mark.parametrize("kind", ["attach_session", "resume_session"])
async def test_attaching_needs_a_token(tmp_path: Path, kind: str) -> None:
    async with scripted_host(tmp_path) as host, host.client() as owner:
        await owner.start()
        await check_refused(host, owner, kind, REQUESTS[kind], None)


def test_what_needs_a_role_names_its_session() -> None:
    assert {row.is_session_bound for row in REQUESTS.values() if row.access in get_args(Role)} == {True}


async def test_every_request_has_a_handler(tmp_path: Path) -> None:
    async with scripted_host(tmp_path) as host:
        runtime = host.runtime
        assert set(make_handlers(runtime.sessions, runtime.log, lambda: 0, runtime)) == set(REQUESTS)


def test_capabilities_follow_from_the_rows() -> None:
    assert {"approvals", "replay_attach", "tokens", "projects", "fork", "web"} <= set(CAPABILITIES)
    assert len(CAPABILITIES) == len(set(CAPABILITIES)) == 33
