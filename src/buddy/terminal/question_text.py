"""A question of a server or an agent, in lines: who asks, what, and which fields an answer has.

Invariants: everything is escaped; the address that a person is asked to open is shown with its host.
"""

from typing import TYPE_CHECKING, Any

from buddy.protocol.forms import Schema, describe_field, fields_of, required_of
from buddy.terminal.escape import escape

if TYPE_CHECKING:
    from buddy.protocol.json_events import QuestionAsked

MOST_FIELDS = 30


def question_lines(asked: "QuestionAsked") -> list[str]:
    agent = asked.get("agent")
    source = f"{asked['source']} (sub-agent {agent})" if agent else asked["source"]
    lines = [f"? {escape(source)} asks: {escape(asked['message'])}"]
    if asked["mode"] == "url":
        url = asked.get("url") or ""
        return [*lines, f"    open {escape(url)}", f"    (on {escape(host_of(url))})"]
    schema = schema_of(asked)
    required = required_of(schema)
    fields = [describe_field(name, field, required=name in required) for name, field in fields_of(schema).items()]
    return lines + [f"    {escape(text)}" for text in fields[:MOST_FIELDS]]


def answer_form(asked: "QuestionAsked") -> str:
    """How to type an answer: `size=… colour=…`."""
    return " ".join(f"{escape(name)}=…" for name in fields_of(schema_of(asked)))


def schema_of(asked: "QuestionAsked") -> Schema | None:
    found: dict[str, Any] | None = asked.get("schema")
    return found


def host_of(url: str) -> str:
    """The host of an address, as a person should read it."""
    rest = url.partition("://")[2].partition("/")[0].partition("?")[0]
    return rest.rpartition("@")[2] or "an unknown host"
