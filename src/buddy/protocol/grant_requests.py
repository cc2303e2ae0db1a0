"""Requests about what needs no further approval in a session."""

from buddy.protocol.ids import ApprovalId
from buddy.protocol.shapes import Grant, Shape


class ListGrants(Shape, frozen=True):
    pass


class ListGrantsReply(Shape, frozen=True):
    grants: tuple[Grant, ...]


class RevokeGrant(Shape, frozen=True):
    grant_id: ApprovalId
