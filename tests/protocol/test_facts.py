"""Event types declare their facts, and each fold of events handles or ignores every type by name."""

import ast
import inspect
from collections.abc import Callable, Iterator

import pytest

from buddy.backends.external.history import History
from buddy.backends.native.pinned import Pins
from buddy.backends.native.transcript import Transcript
from buddy.backends.runstate import RunState
from buddy.client.view import View
from buddy.daemon.spans import Spans
from buddy.protocol import events
from buddy.protocol.events import EVENTS, LASTING, Informational, events_where
from buddy.sessions import fork
from buddy.sessions.state import SessionFold

FOLDS: list[Callable[..., object]] = [
    SessionFold._apply,  # pyright: ignore[reportPrivateUsage] - the fold under test
    RunState.apply,
    fork.Boundary.observe,
    Transcript.apply,
    Pins.apply,
    History.observe,
    Spans.apply,
    View._apply_to_session,  # pyright: ignore[reportPrivateUsage] - the fold under test
    View._apply_to_run,  # pyright: ignore[reportPrivateUsage] - the fold under test
]


@pytest.mark.parametrize("fold", FOLDS, ids=lambda fold: fold.__qualname__)
def test_a_fold_names_every_event_type(fold: Callable[..., object]) -> None:
    source = inspect.getsource(fold)
    tree = ast.parse(source if source.startswith("def") else f"if True:\n{source}")
    matched = next(node for node in ast.walk(tree) if isinstance(node, ast.Match))
    assert all(case.guard is None for case in matched.cases)
    named = [name for case in matched.cases for name in names_of(case.pattern)]
    types = [EVENTS[name] if name in EVENTS else getattr(events, name) for name in named]
    missing = [body.__name__ for body in EVENTS.values() if not issubclass(body, tuple(types))]
    assert missing == []
    assert len(named) == len(set(named))


def names_of(pattern: ast.pattern) -> Iterator[str]:
    match pattern:
        case ast.MatchOr():
            for part in pattern.patterns:
                yield from names_of(part)
        case ast.MatchClass(cls=ast.Name(name)) | ast.MatchValue(value=ast.Constant(str(name))):
            yield name
        case ast.MatchSingleton(value=None):
            pass  # an event of an unknown type has no body
        case _:
            pytest.fail(f"a fold must not have a default arm: {ast.unparse(pattern)}")


def test_the_wire_name_is_declared_where_it_is_not_the_class_name() -> None:
    assert {name for name, body in EVENTS.items() if body.facts.name} == {"warning"}
    assert EVENTS["warning"] is events.WarningRaised


def test_what_lasts_is_neither_transient_nor_informational() -> None:
    assert not LASTING & events_where(lambda facts: facts.transient)
    assert not any(issubclass(EVENTS[name], Informational) for name in LASTING)


def test_a_fork_can_only_cut_after_what_it_copies() -> None:
    assert events_where(lambda facts: facts.ends_step) <= events_where(lambda facts: facts.copied)
