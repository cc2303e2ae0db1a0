"""Whether a person is looking at what a client shows."""

from buddy.protocol.shapes import Shape


class SetAttention(Shape, frozen=True):
    """Until a client says so, nobody looks. While somebody looks at a session, no notification is sent about it."""

    looking: bool
