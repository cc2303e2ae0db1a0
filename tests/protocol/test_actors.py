"""The actors behind `by`, and the names that a client cannot take."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from buddy.protocol.actors import ClientActor, RuleActor, RuntimeActor, acts_on_session, parse_actor, register_client


@pytest.mark.parametrize("actor", [*RuntimeActor, RuleActor("a1b2"), ClientActor("console")])
def test_an_actor_is_read_back_from_its_wire_form(actor: RuntimeActor | RuleActor | ClientActor) -> None:
    assert parse_actor(str(actor)) == actor


@pytest.mark.parametrize("name", [*RuntimeActor, "Auto", "POLICY"])
def test_the_names_of_the_runtime_are_reserved(name: str) -> None:
    assert register_client(name) == ClientActor(f"{name}-client")


@given(st.one_of(st.text(), st.sampled_from(["rule:x", "rule:", " auto ", "au\0to", *RuntimeActor])))
def test_whatever_a_client_calls_itself_it_stays_a_client(name: str) -> None:
    client = register_client(name)
    assert client.name
    assert parse_actor(client.name) == client
    assert isinstance(parse_actor(client.name.lower()), ClientActor)


def test_a_session_tells_its_own_acts_from_those_of_others() -> None:
    outside = [
        str(actor) for actor in (*RuntimeActor, RuleActor("x"), ClientActor("console")) if acts_on_session(str(actor))
    ]
    assert outside == ["daemon", "import", "parent", "console"]
