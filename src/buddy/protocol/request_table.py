"""Every request in one row: what it takes, what it answers, who may send it, and what it acts on.

Dispatch, schemas, reference and the capabilities of hello are all derived from these rows.
"""

from typing import Literal

from msgspec import Struct

from buddy.protocol import attention_requests as attention
from buddy.protocol import blob_requests as blobs
from buddy.protocol import command_requests as commands
from buddy.protocol import daemon_requests as daemon
from buddy.protocol import file_requests as files
from buddy.protocol import grant_requests as granting
from buddy.protocol import history_requests as history
from buddy.protocol import mcp_requests as mcp
from buddy.protocol import node_requests as nodes
from buddy.protocol import open_file_requests as open_files
from buddy.protocol import question_requests as questions
from buddy.protocol import queue_requests as queue
from buddy.protocol import requests as ask
from buddy.protocol import web_requests as web
from buddy.protocol.shapes import Shape

Access = Literal["anyone", "client", "observer", "approver", "driver", "user", "owner", "local_owner"]
"""The least that a peer must be: `anyone` even before hello, `client` after it, then a role on the session, then a
user, who has sessions of their own, then the owner of the runtime, who connects without a session's token, then the
owner on the Unix socket."""

ActsOn = Literal["runtime", "session", "open_session"]
"""`session` needs the session's record alone; `open_session` needs it open for writing in this process."""


class RequestRow(Struct, frozen=True):
    payload: type[Shape]
    reply: type[Shape]
    access: Access
    acts_on: ActsOn = "runtime"
    capability: str | None = None
    """What hello announces if this request is served."""
    is_reply_bound: bool = False
    """The schema requires the response to name its session."""
    takes_long: bool = False
    """It waits for a model or another machine, so other requests of its connection do not wait for it."""

    @property
    def is_session_bound(self) -> bool:
        return self.acts_on != "runtime"


REQUESTS: dict[str, RequestRow] = {
    # of the Push protocol
    "hello": RequestRow(ask.Hello, ask.HelloReply, "anyone"),
    "start_session": RequestRow(ask.StartSession, ask.StartSessionReply, "user", takes_long=True),
    "list_sessions": RequestRow(ask.ListSessions, ask.ListSessionsReply, "client"),
    # Attaching grants a role: the handler takes it from the token.
    "attach_session": RequestRow(
        ask.AttachSession, ask.AttachSessionReply, "client", "session", "replay_attach", is_reply_bound=True
    ),
    "resume_session": RequestRow(
        ask.ResumeSession, ask.AttachSessionReply, "client", "session", "replay_attach", is_reply_bound=True
    ),
    "send_user_message": RequestRow(
        ask.SendUserMessage, ask.SendUserMessageReply, "driver", "open_session", is_reply_bound=True
    ),
    "submit_approval": RequestRow(
        ask.SubmitApproval, ask.AcceptedReply, "approver", "open_session", "approvals", is_reply_bound=True
    ),
    "cancel_run": RequestRow(ask.CancelRun, ask.CancelRunReply, "driver", "open_session", is_reply_bound=True),
    "ping": RequestRow(ask.Ping, ask.PingReply, "anyone"),
    # Buddy's own
    "watch_sessions": RequestRow(ask.WatchSessions, ask.ListSessionsReply, "client", capability="watch_sessions"),
    # Neither is opened: the name of a session does not depend on its model or its folder.
    "rename_session": RequestRow(ask.RenameSession, ask.RenameSession, "driver", "session", "titles"),
    "archive_session": RequestRow(ask.ArchiveSession, ask.ArchiveSession, "driver", "session", "titles"),
    "set_approval_policy": RequestRow(ask.SetApprovalPolicy, ask.SetApprovalPolicyReply, "driver", "open_session"),
    # Not opened by dispatch: if the session's model is no longer configured, it is opened with the new one.
    "switch_model": RequestRow(ask.SwitchModel, ask.SwitchModelReply, "driver", "session"),
    "compact_session": RequestRow(
        ask.CompactSession, ask.CompactSessionReply, "driver", "open_session", takes_long=True
    ),
    # Opened by its handler, if that is possible; one that is not can be read nevertheless.
    "get_snapshot": RequestRow(ask.GetSnapshot, ask.GetSnapshotReply, "observer", "session"),
    "read_events": RequestRow(ask.ReadEvents, ask.ReadEventsReply, "observer", "session", "read_events"),
    "read_blob": RequestRow(ask.ReadBlob, ask.ReadBlobReply, "observer", "session", "blobs"),
    "upload_blob": RequestRow(blobs.UploadBlob, blobs.UploadBlobReply, "driver", "open_session", "attachments"),
    "list_approvals": RequestRow(ask.ListApprovals, ask.ListApprovalsReply, "user"),
    "list_grants": RequestRow(granting.ListGrants, granting.ListGrantsReply, "driver", "open_session", "grants"),
    "revoke_grant": RequestRow(granting.RevokeGrant, ask.AcceptedReply, "driver", "open_session", "grants"),
    "answer_question": RequestRow(questions.AnswerQuestion, ask.AcceptedReply, "approver", "open_session", "questions"),
    "list_decisions": RequestRow(ask.ListDecisions, ask.ListDecisionsReply, "user", capability="decisions"),
    "steer_run": RequestRow(queue.SteerRun, ask.AcceptedReply, "driver", "open_session", "steer"),
    "queue_message": RequestRow(queue.QueueMessage, queue.QueueMessageReply, "driver", "open_session", "queue"),
    "list_queue": RequestRow(queue.ListQueue, queue.ListQueueReply, "observer", "session", "queue"),
    "unqueue_message": RequestRow(queue.UnqueueMessage, queue.UnqueueMessageReply, "driver", "open_session", "queue"),
    # Neither is opened: a session that another process runs can be forked, and opening one to delete it would resume
    # its interrupted run.
    "fork_session": RequestRow(ask.ForkSession, ask.ForkSessionReply, "driver", "session", "fork"),
    "delete_session": RequestRow(ask.DeleteSession, ask.DeleteSessionReply, "driver", "session"),
    "prune_session": RequestRow(ask.PruneSession, ask.PruneSessionReply, "driver", "open_session", "prune"),
    # Not opened, so that the node that was asked answers: a token must not be in what nodes send each other.
    "mint_token": RequestRow(ask.MintToken, ask.MintTokenReply, "driver", "session", "tokens"),
    "revoke_token": RequestRow(ask.RevokeToken, ask.RevokeTokenReply, "driver", "session", "tokens"),
    "list_tokens": RequestRow(ask.ListTokens, ask.ListTokensReply, "driver", "session", "tokens"),
    "trust_folder": RequestRow(ask.TrustFolder, ask.TrustFolderReply, "owner"),
    "create_project": RequestRow(ask.CreateProject, ask.CreateProjectReply, "user", capability="projects"),
    "update_project": RequestRow(ask.UpdateProject, ask.UpdateProjectReply, "user", capability="projects"),
    "delete_project": RequestRow(ask.DeleteProject, ask.DeleteProjectReply, "user", capability="projects"),
    "list_projects": RequestRow(ask.ListProjects, ask.ListProjectsReply, "user", capability="projects"),
    "project_options": RequestRow(ask.ProjectOptions, ask.ProjectOptionsReply, "client", capability="projects"),
    # Not opened: the servers are for later turns. They may hold secrets and start programs.
    "offer_mcp_servers": RequestRow(mcp.OfferMcpServers, ask.AcceptedReply, "local_owner", capability="mcp_servers"),
    # What a client has open is read for the session's user, so only the owner's own clients may offer it.
    "offer_files": RequestRow(open_files.OfferFiles, ask.AcceptedReply, "local_owner", capability="open_files"),
    "answer_file": RequestRow(open_files.AnswerFile, ask.AcceptedReply, "local_owner", capability="open_files"),
    "set_attention": RequestRow(attention.SetAttention, ask.AcceptedReply, "client", capability="attention"),
    "daemon_status": RequestRow(ask.DaemonStatus, ask.DaemonStatusReply, "client"),
    "restart_daemon": RequestRow(daemon.RestartDaemon, ask.AcceptedReply, "owner", capability="restart"),
    "list_nodes": RequestRow(nodes.ListNodes, nodes.ListNodesReply, "owner", capability="nodes"),
    "drain_node": RequestRow(nodes.DrainNode, ask.AcceptedReply, "owner", capability="nodes"),
    "list_marks": RequestRow(history.ListMarks, history.ListMarksReply, "observer", "session", "history"),
    "list_changes": RequestRow(files.ListChanges, files.ListChangesReply, "observer", "session", "history"),
    "restore_files": RequestRow(
        files.RestoreFiles, files.RestoreFilesReply, "driver", "open_session", "checkpoints", takes_long=True
    ),
    "list_profiles": RequestRow(history.ListProfiles, history.ListProfilesReply, "user", capability="profiles"),
    "list_commands": RequestRow(commands.ListCommands, commands.ListCommandsReply, "owner", capability="commands"),
    "open_web": RequestRow(web.OpenWeb, web.OpenWebReply, "local_owner", capability="web", takes_long=True),
    "mint_web_link": RequestRow(web.MintWebLink, web.MintWebLinkReply, "local_owner", capability="web"),
    "revoke_web_logins": RequestRow(web.RevokeWebLogins, web.RevokeWebLoginsReply, "local_owner", capability="web"),
    "shutdown": RequestRow(ask.Shutdown, ask.AcceptedReply, "owner"),
}

_FEATURES = (
    "stream_tokens",
    "headless",
    "multi_client",
    "crash_recovery",
    "acceptance",
    "grants_until",
    "cancel_later",
)
"""Capabilities without a request of their own."""

CAPABILITIES = (*_FEATURES, *dict.fromkeys(row.capability for row in REQUESTS.values() if row.capability))
