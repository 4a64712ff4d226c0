"""The virtual clock's promises: what happens when, what is counted, and what never goes wrong."""

import itertools
import math
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import feddr
from feddr import certify, delays, tree
from feddr.delays import Delay
from feddr.engines.clock.event_loop import EventLoop, StalenessWarning, StalledWarning
from feddr.engines.clock.events import SERVER, Event
from feddr.engines.shared.aggregation import weighted_sum
from feddr.engines.shared.options import EngineOptions
from feddr.engines.shared.run import Run
from feddr.engines.shared.state import Progress
from feddr.xla.thread_pool import ThreadPool
from tests.agreement.test_async import ROUGH
from tests.conftest import make_regression

SGD = feddr.local.SGD(lr=0.05, epochs=1, batch_size=4)
FEDDR = feddr.AsyncFedDR(eta=0.7, alpha=1.2)


@pytest.fixture(scope="module")
def problem(regression_data: feddr.FederatedData) -> feddr.Problem:
    return feddr.Problem.regression(feddr.models.linear(6), regression_data, g=feddr.prox.L1(0.05), weights="samples")


def run(problem: feddr.Problem, model: Delay | None = None, max_events: int = 1000, **changes: Any) -> feddr.Result:
    arguments: dict[str, Any] = {"algorithm": FEDDR, "local": SGD, "updates": 12} | changes
    clock = None if model is None else feddr.Clock(model, max_events=max_events)
    return feddr.simulate_async(problem, clock=clock, **arguments)


@contextmanager
def started_loop(
    problem: feddr.Problem, algorithm: feddr.AsyncFedDR, concurrency: int, updates: int
) -> Iterator[EventLoop]:
    """Yield an event loop with rough delays, ready for its first event, to be played event by event."""
    with ThreadPool(2) as pool:
        state = Run(problem, algorithm, SGD, EngineOptions(feddr.sampling.Uniform(1), seed=4), pool)
        loop = EventLoop(state, algorithm, feddr.Clock(ROUGH), concurrency, updates)
        loop.start()
        yield loop


def arrivals(result: feddr.Result) -> list[tuple[int, int]]:
    """Client and staleness of each update."""
    return [(event.client, event.arrived - event.read) for event in result.events if event.arrived >= 0]


@pytest.mark.parametrize("init", ["lazy", "full", "joining"])
@pytest.mark.parametrize("buffer", [1, 3])
@pytest.mark.parametrize("concurrency", [2, 5])
def test_the_bookkeeping_law_holds_after_every_event(
    problem: feddr.Problem, init: str, buffer: int, concurrency: int
) -> None:
    algorithm = feddr.AsyncFedDR(eta=0.7, alpha=1.2, init=init, buffer=buffer)
    with started_loop(problem, algorithm, concurrency, updates=30) as clock:
        state, lost = clock.run.state, 0
        while clock.version < clock.updates:
            before, jobs = dict(state.clients), dict(clock.schedule.jobs)
            clock.step()
            ended = set(jobs) - {i for i, job in clock.schedule.jobs.items() if jobs.get(i) is job}
            for i in ended:
                if jobs[i].lost:
                    lost += 1
                    assert state.clients.get(i) is before.get(i)
            assert all(state.clients[i] is c for i, c in before.items() if i not in ended)
            server = state.server
            if clock.buffer:  # what has arrived and is not yet aggregated counts, too
                server = algorithm.aggregate(
                    server, weighted_sum(sorted(clock.buffer, key=lambda one: one.shard)), lambda x, _: x
                )
            audited = type(state)(server=server, clients=state.clients)
            assert certify.bookkeeping_gap(problem, algorithm, audited) < 1e-13
            assert len(clock.schedule.jobs) <= concurrency
        assert lost > 0


def check_timeline(events: Sequence[Event], end: float) -> None:
    """A client does one thing at a time, from the start to the end, without a gap."""
    rows: dict[int, list[Event]] = defaultdict(list)
    for event in events:
        if event.client != SERVER:
            rows[event.client].append(event)
    for row in rows.values():
        row.sort(key=lambda event: event.start)
        assert row[0].start == 0
        assert row[-1].end == end
        for a, b in itertools.pairwise(row):
            assert a.start < a.end == b.start


@pytest.mark.parametrize("init", ["lazy", "full"])
@pytest.mark.parametrize("concurrency", [None, 1, 3])
def test_every_moment_of_every_client_is_in_the_events(
    problem: feddr.Problem, concurrency: int | None, init: str
) -> None:
    algorithm = feddr.AsyncFedDR(eta=0.7, alpha=1.2, init=init)
    result = run(problem, ROUGH, algorithm=algorithm, concurrency=concurrency, updates=40, seed=5)
    check_timeline(result.events, result.history.last.time)
    made = [(event.read, event.start) for event in result.events if event.client == SERVER]
    assert [version for version, _ in made][-40:] == list(range(1, 41))
    start = 0.0 if init == "lazy" else made[0][1]
    after = [event for event in result.events if event.arrived >= 0 and event.end > start]
    assert {(event.arrived + 1, event.end) for event in after} == set(made[-40:])
    assert {event.kind for event in result.events} >= {"receiving", "computing", "sending", "offline", "lost"}
    assert any(event.kind == "idle" for event in result.events) or concurrency is None
    assert len(run(problem, ROUGH, max_events=10).events) <= 13  # the last job is kept whole


def test_fixed_speeds_give_the_schedule_that_one_computes_by_hand(problem: feddr.Problem) -> None:
    """Arrivals at 1, 2, ... of client 0, at 2.1, 4.2, ... of client 1, and so on."""
    result = run(problem, delays.Fixed([1.0, 2.1, 3.3, 4.6, 100.0]), evaluate_every=5)
    assert [i for i, _ in arrivals(result)] == [0, 0, 1, 0, 2, 0, 1, 3, 0, 0, 1, 2]
    staleness = [0, 0, 2, 1, 4, 1, 3, 7, 2, 0, 3, 6]
    assert [s for _, s in arrivals(result)] == staleness
    assert result.tau == 7
    assert result.T == 12  # client 4 was never heard from
    assert result.history.column("time") == [0.0, 3.3, 6.0, 6.6]
    assert result.history.column("staleness_max")[1:] == [4.0, 7.0, 6.0]
    assert result.history.column("staleness_mean")[1:] == [np.mean(staleness[:5]), np.mean(staleness[5:10]), 4.5]
    assert result.state.updates == {0: 6, 1: 3, 2: 2, 3: 1}


@pytest.mark.parametrize("init", ["lazy", "full", "joining"])
@pytest.mark.parametrize("rounds", [True, False], ids=["rounds", "clock"])
def test_every_update_that_counts_arrives_in_the_events(problem: feddr.Problem, init: str, rounds: bool) -> None:
    """Those of a start-up round, too: a client's work before version 0 is neither lost nor between jobs."""
    model = delays.Combined([delays.UniformSpeed(1.0, 2.0), delays.Dropout(0.3)])
    settings: dict[str, Any] = {"eta": 0.7, "alpha": 1.2, "init": init}
    if rounds:
        result = feddr.simulate(problem, feddr.FedDR(**settings), local=SGD, rounds=3, clock=feddr.Clock(model))
    else:
        result = run(problem, model, algorithm=feddr.AsyncFedDR(**settings))
    counts = Counter(client for client, _ in arrivals(result))
    assert counts == result.state.updates
    assert all(event.read >= 0 for event in result.events if event.kind in ("computing", "lost", "sending"))


ONE_AFTER_THE_OTHER = delays.Windows([[(0.125 * i, math.inf)] for i in range(5)])
"""Equal speeds, and clients begin one after the other."""


def test_round_robin_has_the_constants_of_the_theory(problem: feddr.Problem) -> None:
    """Each client reads an xbar that n - 1 others have changed when it is back."""
    result = run(problem, ONE_AFTER_THE_OTHER, updates=20)
    assert arrivals(result)[5:] == [(i % 5, 4) for i in range(15)]
    assert (result.tau, result.T) == (4, 4)


def test_bytes_and_steps_are_counted_as_they_happen(problem: feddr.Problem) -> None:
    size = 4 * tree.size(problem.init)
    row = run(problem, ONE_AFTER_THE_OTHER, updates=7).history.last
    assert row.bytes_up == 7 * size
    assert row.bytes_down == (5 + 6) * size  # whoever has arrived began anew, but for the last
    assert row.local_steps == sum(-(-s // 4) for s in (7, 40, 12, 25, 3)) + -(-7 // 4) + -(-40 // 4)


def test_no_more_is_computed_than_is_wanted() -> None:
    """With one update to go, one of a thousand jobs in flight is computed."""
    problem = feddr.Problem.regression(feddr.models.linear(2), make_regression(tuple([3] * 1000), 2, seed=0))
    computed = []

    class Counting(feddr.local.SGD):
        def batches(self, size: int, rng: np.random.Generator) -> Any:
            computed.append(size)
            return super().batches(size, rng)

    run(problem, delays.UniformSpeed(1.0, 2.0), local=Counting(lr=0.1), updates=3)
    assert len(computed) <= 3


class TestNothingGoesWrong:
    def test_no_updates_at_all(self, problem: feddr.Problem) -> None:
        result = run(problem, updates=0)
        assert [row.round for row in result.history.rows] == [0]
        assert (result.tau, result.T, result.state.clients) == (0, 0, {})

    def test_one_client(self) -> None:
        alone = feddr.Problem.regression(feddr.models.linear(2), make_regression((9,), 2, seed=0))
        result = run(alone, delays.Combined([delays.Dropout(0.3, 1.0), delays.LogNormal(1.0)]))
        assert (result.tau, result.T, result.history.last.round) == (0, 0, 12)

    def test_everybody_is_offline_for_a_while(self, problem: feddr.Problem) -> None:
        night = delays.Windows([[(0, 2.5), (10, math.inf)]] * 5)
        result = run(problem, night)
        assert len(arrivals(result)) == 12
        assert not any(2.5 < event.end < 10 for event in result.events if event.arrived >= 0)
        check_timeline(result.events, result.history.last.time)

    def test_nobody_is_there_at_the_start(self, problem: feddr.Problem) -> None:
        late = run(problem, delays.Windows([[(3 + i, math.inf)] for i in range(5)]))
        assert arrivals(late)[0] == (0, 0)
        assert late.history.last.round == 12

    def test_a_client_that_never_finishes(self, problem: feddr.Problem) -> None:
        result = run(problem, delays.Fixed([1.0, 1.0, math.inf, 1.0, 1.0]))
        assert 2 not in result.state.clients
        assert result.history.last.round == 12
        check_timeline(result.events, result.history.last.time)

    def test_nobody_ever_finishes(self, problem: feddr.Problem) -> None:
        with pytest.warns(StalledWarning, match="after 0 of 12 updates"):
            result = run(problem, delays.Fixed(math.inf))
        assert result.history.last.round == 0

    def test_everybody_leaves_and_what_has_arrived_still_counts(self, problem: feddr.Problem) -> None:
        algorithm = feddr.AsyncFedDR(eta=0.7, alpha=1.2, buffer=4)
        with pytest.warns(StalledWarning, match="after 3 of 12 updates, at time 2"):
            result = run(problem, delays.Windows([[(0, 2.5)]] * 5), algorithm=algorithm)
        assert certify.bookkeeping_gap(problem, algorithm, result.state) < 1e-13
        assert sum(result.state.updates.values()) == 10

    def test_a_full_start_that_loses_some(self, problem: feddr.Problem) -> None:
        algorithm = feddr.AsyncFedDR(eta=0.7, alpha=1.2, init="full")
        result = run(problem, delays.Dropout(0.6, pause=0.5), algorithm=algorithm, seed=2, updates=30)
        assert certify.bookkeeping_gap(problem, algorithm, result.state) < 1e-13


def test_a_callback_can_end_the_run(problem: feddr.Problem) -> None:
    def stop_after_three(progress: Progress) -> bool:
        return progress.round == 3

    result = run(problem, callback=stop_after_three)
    assert [row.round for row in result.history.rows] == [0, 3]
    assert result.settings["updates"] == 3


def test_a_warning_when_updates_are_older_than_the_step_sizes_allow(problem: feddr.Problem) -> None:
    with pytest.warns(StalenessWarning, match=r"4 versions old.*tau=3.*alpha < ") as caught:
        run(problem, algorithm=feddr.AsyncFedDR(eta=0.7, alpha=0.5, start="own", tau=3))
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(problem, algorithm=feddr.AsyncFedDR(eta=0.7, alpha=0.5, start="own", tau=4))


def test_step_sizes_from_the_theory_are_for_the_given_staleness(problem: feddr.Problem) -> None:
    exact = feddr.local.Accelerated()
    result = run(problem, algorithm=feddr.AsyncFedDR(tau=4), local=exact, updates=1)
    chosen: Any = result.algorithm
    L = feddr.theory.smoothness(problem).L
    assert 0 < chosen.eta < feddr.theory.asynchronous.eta_max(chosen.alpha, L, n=5, tau=4)
    with pytest.raises(ValueError, match='"auto" needs to know how stale updates may be, got tau=None'):
        run(problem, algorithm=feddr.AsyncFedDR(), local=exact)


def test_divergence_is_reported_with_client_and_update(problem: feddr.Problem) -> None:
    with pytest.raises(feddr.DivergedError, match=r"Client \d sent .* round \d"):
        run(problem, local=feddr.local.SGD(lr=1e30, epochs=5))


def test_fedasync_mixes_as_published(regression_data: feddr.FederatedData) -> None:
    """One step of a client that was overtaken once: the model is mixed in with alpha s(1)."""
    smooth = feddr.Problem.regression(feddr.models.linear(6), regression_data)
    seen: list[Any] = []

    def keep(progress: Progress) -> None:
        seen.append(progress.state.server.xbar["weight"])

    algorithm = feddr.FedAsync(alpha=0.5, staleness="polynomial", a=1.0)
    model = delays.Fixed([1.0, 1.5, 9.0, 9.0, 9.0])
    run(smooth, model, algorithm=algorithm, updates=2, callback=keep, precision="float64")
    alone = [
        run(smooth, delays.Fixed([9.0] * i + [1.0] + [9.0] * (4 - i)), algorithm=feddr.FedAsync(1.0, "constant"),
            updates=1, precision="float64").params["weight"]
        for i in range(2)
    ]  # fmt: skip
    assert np.max(np.abs(seen[1] - 0.5 * alone[0])) < 1e-14  # the start is 0
    assert np.max(np.abs(seen[2] - (0.75 * seen[1] + 0.25 * alone[1]))) < 1e-14


@pytest.mark.parametrize(
    ("algorithm", "expected"),
    [
        (feddr.FedAsync(staleness="constant"), [1, 1, 1, 1]),
        (feddr.FedAsync(staleness="polynomial", a=0.5), [1, 2**-0.5, 0.5, 0.25]),
        (feddr.FedAsync(staleness="hinge", a=10.0, b=4.0), [1, 1, 1, 1 / 111]),
        (feddr.FedBuff(), [1, 2**-0.5, 0.5, 0.25]),
        (feddr.AsyncFedDR(eta=1.0), [1, 1, 1, 1]),
        (feddr.CA2FL(), [1, 1, 1, 1]),
    ],
    ids=repr,
)
def test_staleness_factors(algorithm: Any, expected: list[float]) -> None:
    assert [algorithm.factor(s) for s in (0, 1, 3, 15)] == pytest.approx(expected, rel=1e-15)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"updates": -1}, "updates must be at least 0, got -1"),
        ({"concurrency": 0}, "concurrency must be from 1 to the number of clients, 5, got 0"),
        ({"concurrency": 6}, "got 6"),
        ({"evaluate_every": 0}, "evaluate_every"),
        ({"algorithm": feddr.FedDR(eta=1.0)}, "runs AsyncFedDR, FedAsync, FedBuff and CA2FL, got FedDR; use simulate"),
        ({"algorithm": feddr.FedAsync()}, "FedAsync has no composite step"),
        ({"algorithm": feddr.FedBuff()}, "FedBuff has no composite step"),
        ({"model": delays.Fixed([1.0, 2.0])}, "each of 5 clients, got 2"),
    ],
)
def test_bad_settings_are_refused(problem: feddr.Problem, change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        run(problem, **change)


@pytest.mark.parametrize(
    "make",
    [
        lambda: feddr.AsyncFedDR(eta=0.0),
        lambda: feddr.AsyncFedDR(eta=1.0, buffer=0),
        lambda: feddr.AsyncFedDR(eta=1.0, tau=-1),
        lambda: feddr.FedAsync(alpha=1.5),
        lambda: feddr.FedAsync(staleness="linear"),  # type: ignore[arg-type]
        lambda: feddr.FedAsync(a=-1.0),
        lambda: feddr.FedBuff(buffer=0),
        lambda: feddr.FedBuff(server_lr=0.0),
        lambda: feddr.CA2FL(buffer=0),
        lambda: feddr.CA2FL(server_lr=0.0),
    ],
)
def test_bad_hyper_parameters_are_refused(make: Any) -> None:
    with pytest.raises(ValueError, match="must be"):
        make()
