"""A fleet without Ray: what it asks of actors, and what it does and says where one of them dies."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from feddr.engines.shared.errors import WorkerWarning
from feddr.engines.workers import connection
from feddr.engines.workers.fleet import TRIES, Fleet, Member


class DiedError(Exception):
    """The process of an actor is gone."""


class FailedError(Exception):
    """What the code of an actor has raised; nothing here does."""


def dies() -> Any:
    raise DiedError


def actor(answer: Callable[[], Any]) -> Any:
    """Return an actor whose calls have this answer."""
    return SimpleNamespace(
        meet=SimpleNamespace(remote=lambda: lambda: ("second", 2, connection.versions())),
        start=SimpleNamespace(remote=lambda *_: lambda: None),
        call=SimpleNamespace(remote=lambda method, *_: (lambda: None) if method == "assign" else answer),
    )


def fleet(monkeypatch: pytest.MonkeyPatch, later: Callable[[], Any]) -> Fleet:
    """Return a fleet of one worker, which dies when it is asked; those that take its place have an answer."""
    ray = SimpleNamespace(
        exceptions=SimpleNamespace(
            RayActorError=DiedError, WorkerCrashedError=DiedError, ObjectLostError=DiedError, RayTaskError=FailedError
        ),
        wait=lambda references, **_: (references, []),
        get=lambda reference: reference(),
        kill=lambda _: None,
    )
    monkeypatch.setattr(Fleet, "_actor", lambda *_: actor(later))
    found = Fleet(ray, duty=None, part=lambda *_: None, threads=1, options={})  # type: ignore[arg-type]  # nobody looks
    found._duty, found.members = None, [Member(actor(dies), (0, 64), "first")]
    return found


def test_a_worker_that_dies_is_replaced_and_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    restored: list[int] = []
    one = fleet(monkeypatch, lambda: 7)
    one.restore = restored.append
    with pytest.warns(WorkerWarning, match=r"Worker 0 on first died \(DiedError\); another one takes its place"):
        assert one.ask({0: ("round",)}) == {0: 7}
    assert one.members[0].machine == "second"
    assert one.members[0].replaced == 1
    assert restored == [0]


def test_a_worker_that_dies_again_and_again_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    one = fleet(monkeypatch, dies)
    with pytest.warns(WorkerWarning), pytest.raises(RuntimeError, match=rf"Worker 0 died {TRIES} times in a row"):
        one.ask({0: ("round",)})
    assert one.members[0].replaced == TRIES
