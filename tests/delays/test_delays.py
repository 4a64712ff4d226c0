"""Models of delays: their laws, how they combine, and the time that synchronous rounds take."""

import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import feddr
from feddr import certify, delays, tree
from feddr.delays import Delay, Job, Timing
from feddr.delays.draw import uniform
from feddr.engines.clock import events
from feddr.engines.shared.state import Progress
from tests.engines.test_asynchronous import check_timeline


def job(client: int = 0, number: int = 0, seed: int = 0, steps: int = 20) -> Job:
    return Job(seed, client, number, steps, down=4000, up=8000)


def timing(model: Delay, client: int = 0, number: int = 0, seed: int = 0) -> Timing:
    return model.apply(job(client, number, seed), Timing())


def computing(model: Delay, clients: int, jobs: int) -> Any:
    return np.array([[timing(model, i, k).compute for k in range(jobs)] for i in range(clients)])


def test_draws_are_uniform_and_apart() -> None:
    draws = np.array([uniform((seed,), i, k) for seed in (0, 1) for i in range(100) for k in range(100)])
    assert len(set(draws)) == len(draws)
    assert 0 < draws.min() < draws.max() < 1
    # Kolmogorov-Smirnov: 1.95 / sqrt(n) is exceeded once in a thousand samples.
    assert np.max(np.abs(np.sort(draws) - np.linspace(0, 1, len(draws)))) < 1.95 / math.sqrt(len(draws))
    assert abs(np.corrcoef(draws[:-1], draws[1:])[0, 1]) < 0.03
    assert uniform((3,), 2, 1) == uniform((3,), 2, 1) == uniform((3, 2), 1)


def test_fixed_speeds() -> None:
    assert timing(delays.Fixed(2.5)).compute == 2.5
    assert [timing(delays.Fixed([1, 2, math.inf]), i).compute for i in range(3)] == [1, 2, math.inf]


def test_speeds_may_be_an_array() -> None:
    array: Any = np.array([1.0, 2.5])
    assert delays.Fixed(array) == delays.Fixed([1.0, 2.5])
    wrong: Any
    for wrong in ("fast", np.ones((2, 2)), None, ["a"]):
        with pytest.raises(ValueError, match="Fixed needs a number of seconds, or one for each client, got"):
            delays.Fixed(wrong)


def test_uniform_speeds_belong_to_clients() -> None:
    found = computing(delays.UniformSpeed(1.0, 2.0), clients=2000, jobs=3)
    assert np.all(found[:, :1] == found)
    assert 1 < found.min() < 1.01 < 1.99 < found.max() < 2
    assert found[:, 0].mean() == pytest.approx(1.5, abs=0.03)


@pytest.mark.parametrize("per_client", [False, True])
def test_lognormal_and_pareto_have_their_laws(per_client: bool) -> None:
    shape = (4000, 1) if per_client else (40, 100)
    normal = np.log(computing(delays.LogNormal(0.5, per_client), *shape)) / 0.5
    assert normal.mean() == pytest.approx(0, abs=0.06)
    assert normal.std() == pytest.approx(1, abs=0.04)
    straggling = computing(delays.Pareto(2.0, per_client), *shape)
    assert straggling.min() >= 1
    for t in (1.5, 3.0):
        assert np.mean(straggling > t) == pytest.approx(t**-2, abs=0.03)
    for model in (delays.LogNormal(0.5, per_client), delays.Pareto(2.0, per_client)):
        assert (len(set(computing(model, 1, 5)[0])) == 1) == per_client


def test_work_and_bytes_set_the_time() -> None:
    assert timing(delays.PerStep(0.01)).compute == pytest.approx(0.2)
    found = timing(delays.Network(latency=0.5, bandwidth=1000.0))
    assert (found.receive, found.send) == (4.5, 8.5)
    assert timing(delays.Network(bandwidth=1000.0, upload=100.0)).send == 80.0


def test_combined_models_multiply_add_and_draw_apart() -> None:
    both = delays.Combined([delays.PerStep(0.1), delays.Fixed(3.0), delays.Network(1.0), delays.Network(2.0)])
    found = timing(both)
    assert (found.receive, found.compute, found.send) == pytest.approx((3.0, 6.0, 3.0))
    same = delays.Combined([delays.UniformSpeed(1, 2), delays.UniformSpeed(1, 2)])
    one = computing(delays.UniformSpeed(1, 2), 50, 1)
    assert not np.any(np.isclose(computing(same, 50, 1), one**2, rtol=1e-6))
    assert np.all(computing(delays.Combined([delays.UniformSpeed(1, 2), delays.Dropout(0.5)]), 50, 1) == one)


@settings(deadline=None, max_examples=60)
@given(
    st.floats(0.5, 10),
    st.floats(0.1, 1.0),
    st.floats(0, 100),
    st.floats(0, 3),
    st.floats(0.01, 20),
    st.integers(0, 5),
)
def test_work_is_done_in_the_windows_and_nowhere_else(
    period: float, share: float, start: float, receive: float, compute: float, client: int
) -> None:
    online = delays.Periodic(period, share * period).apply(job(client), Timing()).online
    plan = Timing(receive=receive, compute=compute, send=0.1, online=online)
    pieces = list(events.pieces(start, plan))
    assert sum(p.end - p.start for p in pieces if p.kind != "offline") == pytest.approx(receive + compute + 0.1)
    assert events.work(start, plan) == pieces[-1].end
    assert pieces[0].start == start
    assert all(a.end == b.start for a, b in itertools.pairwise(pieces))
    for piece in pieces:
        if online is not None and piece.kind != "offline":
            opens, closes = online(piece.start)
            assert opens == piece.start
            assert piece.end <= closes


def test_periodic_clients_are_there_for_their_share() -> None:
    model = delays.Periodic(period=24.0, online=8.0)
    there = 0
    for i in range(400):
        online = timing(model, i).online
        assert online is not None
        there += online(100.0)[0] == 100.0
        opens, closes = online(100.0)
        assert closes - opens <= 8.0 + 1e-9
        assert online(closes)[0] == pytest.approx(closes + 16.0)
    assert there / 400 == pytest.approx(1 / 3, abs=0.08)
    assert timing(delays.Periodic(3.0, 3.0)).online is None


def test_windows_end_for_good() -> None:
    online = timing(delays.Windows([[(1, 2), (4, 6)], []]), 0).online
    assert online is not None
    assert [online(t) for t in (0, 1.5, 2, 5)] == [(1, 2), (1.5, 2), (4, 6), (5, 6)]
    assert online(6) == (math.inf, math.inf)
    never = timing(delays.Windows([[(1, 2), (4, 6)], []]), 1)
    assert events.work(0.0, never) == math.inf


def test_drop_outs_have_their_probability_and_happen_anywhere() -> None:
    found = [timing(delays.Dropout(0.25, pause=2.0), i, k) for i in range(50) for k in range(100)]
    lost = [t.lost_after for t in found if t.lost_after is not None]
    assert len(lost) / len(found) == pytest.approx(0.25, abs=0.03)
    assert np.mean(lost) == pytest.approx(0.5, abs=0.04)
    assert {t.pause for t in found if t.lost_after is not None} == {2.0}
    half = Timing(compute=4.0, lost_after=0.5)
    assert [tuple(piece) for piece in events.pieces(1.0, half)] == [("lost", 1.0, 3.0)]


def test_a_trace_is_read_line_by_line(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text("client,start,duration,send,lost\n1,0,2,0.5,0\n0,1,1,0,0\n1,7,1,0.5,1\n")
    trace = delays.Trace(str(path))
    first, second, third = (timing(trace, 1, k) for k in range(3))
    assert (first.compute, first.send, first.lost_after) == (2.0, 0.5, None)
    assert (second.compute, second.send, second.lost_after) == (1.0, 0.0, 1.0)
    assert second.online is not None
    assert second.online(3.0) == (7.0, math.inf)
    assert third.online is not None
    assert third.online(9.0) == (math.inf, math.inf)
    with pytest.raises(ValueError, match="has a client 1, but clients are numbered from 0 to 0"):
        trace.check(1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("client,duration\n", "line 1: a trace has the columns client, start, duration and perhaps send, lost, this o"),
        ("", "line 1: .* has no client"),
        ("client,start,duration,speed\n", "line 1: .* has 'speed'"),
        ("client,start,duration\n0,0,1\n0,x,1\n", "line 3: the values must be numbers, got 0,x,1"),
        ("client,start,duration\n0,0\n", "line 2: a line needs 3 values"),
        ("client,start,duration\n0,0,1,5\n", "line 2: a line needs 3 values"),
        ("client,start,duration\n0,0,0\n", "line 2: client must be at least 0, .* duration above 0"),
        ("client,start,duration\n-1,0,1\n", "line 2: client must be at least 0"),
        ("client,start,duration\n0,nan,1\n", "line 2: .* start finite"),
    ],
)
def test_a_wrong_trace_is_refused_by_its_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "trace.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        delays.Trace(str(path))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: delays.Fixed(0.0), "Fixed needs seconds above 0, got 0.0"),
        (lambda: delays.Fixed([1.0, -1.0]), "got -1.0"),
        (lambda: delays.UniformSpeed(0.0, 1.0), "UniformSpeed needs low above 0"),
        (lambda: delays.UniformSpeed(2.0, 1.0), "low <= high, got low=2.0, high=1.0"),
        (lambda: delays.LogNormal(0.0), "LogNormal needs sigma above 0"),
        (lambda: delays.Pareto(-1.0), "Pareto needs shape above 0"),
        (lambda: delays.PerStep(0.0), "PerStep needs seconds above 0"),
        (lambda: delays.Network(latency=-1.0), "finite latency of 0 or more"),
        (lambda: delays.Network(upload=0.0), "upload above 0"),
        (lambda: delays.Periodic(2.0, 3.0), "0 < online <= period"),
        (lambda: delays.Windows([[(0, 2), (1, 3)]]), "increasing and apart, client 0 has"),
        (lambda: delays.Windows([[(0, 1, 2)]]), "increasing and apart"),
        (lambda: delays.Dropout(1.0), "probability from 0 to below 1, got 1.0"),
        (lambda: delays.Dropout(0.5, pause=-1.0), "pause of 0 or more"),
        (lambda: delays.Trace("/nowhere.csv"), "/nowhere.csv: No such file"),
        (lambda: delays.Combined([delays.Periodic(2, 1), delays.Windows([])]), "At most one model may say when"),
        (lambda: delays.Windows([[(0, 1)]]).check(2), "each of 2 clients, got 1"),
    ],
)
def test_bad_models_are_refused(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


SGD = feddr.local.SGD(lr=0.05, epochs=1, batch_size=4)
FEDDR = feddr.FedDR(eta=0.7, alpha=1.4)


@pytest.fixture(scope="module")
def problem(regression_data: feddr.FederatedData) -> feddr.Problem:
    return feddr.Problem.regression(feddr.models.linear(6), regression_data, weights="samples")


class TestRounds:
    """The synchronous engine on the clock."""

    def run(self, problem: feddr.Problem, algorithm: Any = FEDDR, **changes: Any) -> feddr.Result:
        arguments: dict[str, Any] = {"local": SGD, "rounds": 8, "evaluate_every": 1} | changes
        return feddr.simulate(problem, algorithm, **arguments)

    def test_a_round_lasts_as_long_as_its_slowest_client(self, problem: feddr.Problem) -> None:
        speeds = delays.Fixed([1.0, 2.0, 3.0, 4.0, 5.0])
        scheme = feddr.sampling.Uniform(2)
        active: list[int] = []

        def watch(progress: Progress) -> None:
            active.append(sum(progress.state.updates.values()))

        timed = self.run(problem, clock=feddr.Clock(speeds), sampling=scheme, callback=watch)
        plain = self.run(problem, sampling=scheme)
        assert np.all(np.isnan(plain.history.column("time")))
        assert timed.history.column("F") == plain.history.column("F")
        rounds = [[e.client for e in timed.events if e.kind == "computing" and e.read == k] for k in range(8)]
        assert [len(clients) for clients in rounds] == [2] * 8
        assert timed.history.column("time") == [0, *np.cumsum([max(clients) + 1.0 for clients in rounds])]
        assert active == [2 * k for k in range(9)]
        check_timeline(timed.events, timed.history.last.time)

    def test_who_is_late_is_left_out_and_unchanged(self, problem: feddr.Problem) -> None:
        speeds = delays.Fixed([1.0, 2.0, 9.0, 4.0, 5.0])
        result = self.run(problem, clock=feddr.Clock(speeds, deadline=4.5))
        assert result.history.column("time") == [4.5 * k for k in range(9)]
        assert result.state.updates == {0: 8, 1: 8, 3: 8}
        assert certify.bookkeeping_gap(problem, FEDDR, result.state) < 1e-13
        assert {e.client for e in result.events if e.kind == "lost"} == {2, 4}
        size = 4 * tree.size(problem.init)
        assert (result.history.last.bytes_up, result.history.last.bytes_down) == (3 * 8 * size, 5 * 8 * size)
        check_timeline(result.events, result.history.last.time)

    def test_a_deadline_that_nobody_meets_changes_nothing_but_the_time(self, problem: feddr.Problem) -> None:
        result = self.run(problem, clock=feddr.Clock(delays.Fixed(3.0), deadline=1.0))
        assert result.state.clients == {}
        assert result.history.last.time == 8.0

    @pytest.mark.parametrize("init", ["lazy", "full", "joining"])
    def test_lost_updates_keep_the_bookkeeping_law(self, problem: feddr.Problem, init: str) -> None:
        algorithm = feddr.FedDR(eta=0.7, alpha=1.4, init=init)
        found: list[float] = []

        def audit(progress: Progress) -> None:
            found.append(certify.bookkeeping_gap(problem, algorithm, progress.state))

        model = delays.Combined([delays.UniformSpeed(1, 2), delays.Dropout(0.3, 2.0), delays.Periodic(6.0, 4.0)])
        result = self.run(problem, algorithm, clock=feddr.Clock(model, deadline=5.0), rounds=20, callback=audit)
        assert max(found) < 1e-13
        assert any(event.kind == "lost" for event in result.events)
        assert np.all(np.diff(result.history.column("time")) > 0)
        check_timeline(result.events, result.history.last.time)

    def test_rounds_without_clients_take_no_time(self, problem: feddr.Problem) -> None:
        result = self.run(problem, clock=feddr.Clock(delays.Fixed(3.0)), sampling=feddr.sampling.Independent(1e-9))
        assert result.history.last.time == 0.0

    def test_speeds_are_those_of_the_asynchronous_engine(self, problem: feddr.Problem) -> None:
        model = delays.UniformSpeed(1.0, 2.0)
        rounds = self.run(problem, clock=feddr.Clock(model), rounds=1, seed=3).events
        clock = feddr.simulate_async(
            problem, feddr.AsyncFedDR(eta=0.7), local=SGD, updates=5, clock=feddr.Clock(model), seed=3
        ).events
        ends = [{e.client: e.end for e in found if e.start == 0 and e.kind == "computing"} for found in (rounds, clock)]
        assert ends[0] == ends[1]

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"clock": feddr.Clock(delays.Fixed([1.0]))}, "each of 5 clients, got 1"),
            (
                {"clock": feddr.Clock(delays.Fixed(math.inf))},
                "Round 1 would never end: client 0 does not finish. Give a deadline.",
            ),
            (
                {"algorithm": feddr.FedPD(eta=1.0), "clock": feddr.Clock(delays.Fixed(1.0), deadline=2.0)},
                "FedPD needs every client in every round, got deadline=2.0",
            ),
            (
                {"algorithm": feddr.FedPD(eta=1.0), "clock": feddr.Clock(delays.Dropout(0.9))},
                r"FedPD needs every client in every round, but client \d is missing in round 1",
            ),
        ],
    )
    def test_what_makes_no_sense_is_refused(
        self, problem: feddr.Problem, changes: dict[str, Any], message: str
    ) -> None:
        with pytest.raises(ValueError, match=message):
            self.run(problem, **changes)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"deadline": 0.0}, "deadline must be above 0, got 0.0"),
        ({"deadline": "soon"}, "deadline must be a number, got 'soon'"),
        ({"max_events": 1.5}, "max_events must be a whole number, got 1.5"),
        ({"delays": 2.0}, r"delays must be a model of feddr.delays, got 2.0; such as Fixed\(1.0\)"),
    ],
)
def test_a_clock_refuses_what_makes_no_sense(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        feddr.Clock(**arguments)


def test_an_asynchronous_run_has_no_deadline(problem: feddr.Problem) -> None:
    with pytest.raises(ValueError, match=r"An asynchronous run has no rounds, got deadline=2.0"):
        feddr.simulate_async(problem, feddr.AsyncFedDR(eta=0.7), local=SGD, updates=5, clock=feddr.Clock(deadline=2.0))


@pytest.mark.parametrize("wrong", [{"clock": delays.Fixed(1.0)}, {"checkpoint": 3}])
def test_objects_of_a_run_are_refused_by_name(problem: feddr.Problem, wrong: dict[str, Any]) -> None:
    (name,) = wrong
    with pytest.raises(ValueError, match=f"{name} must be a feddr.{name.capitalize()}"):
        feddr.simulate(problem, feddr.FedDR(eta=0.7), local=SGD, rounds=1, **wrong)
    with pytest.raises(ValueError, match=f"{name} must be a feddr.{name.capitalize()}"):
        feddr.simulate_async(problem, feddr.AsyncFedDR(eta=0.7), local=SGD, updates=1, **wrong)
