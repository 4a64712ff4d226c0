"""What happens at one moment of virtual time: a client's number must not decide anything."""

import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import feddr
from feddr import delays, tree
from feddr.delays import Delay, Job
from feddr.engines.clock import events
from feddr.engines.clock.schedule import Schedule
from feddr.engines.shared.state import Progress
from tests.conftest import make_regression

SGD = feddr.local.SGD(lr=0.05, epochs=1, batch_size=4)


def equal_jobs(n: int, model: Delay, concurrency: int) -> Schedule:
    """Return a schedule of n clients whose jobs differ in nothing but the number of the client."""
    return Schedule(
        n,
        model,
        seed=7,
        describe=lambda client, number: Job(seed=7, client=client, number=number, steps=1, down=0, up=0),
        concurrency=concurrency,
        record=events.EventRecorder(0),
    )


def arrivals(n: int, model: Delay, concurrency: int, count: int) -> list[tuple[float, int]]:
    """Return time and client of the first uploads of a schedule of equal jobs."""
    schedule = equal_jobs(n, model, concurrency)
    schedule.begin(0)
    uploads: list[tuple[float, int]] = []
    while len(uploads) < count:
        job = schedule.step()
        if job is not None:
            uploads.append((schedule.time, job.client))
        schedule.begin(len(uploads))
    return uploads


NIGHTS = [(10.0 * day, 10.0 * day + 1.5) for day in range(201)]


@pytest.mark.parametrize("concurrency", [5, 12, 19])
@pytest.mark.parametrize(
    ("model", "moments"),
    [(delays.Fixed(1.0), 1000), (delays.Windows([NIGHTS] * 20), 200)],
    ids=["equal speeds", "all come back at once"],
)
def test_equal_clients_make_equally_many_updates(model: Delay, moments: int, concurrency: int) -> None:
    """At each moment c of n clients: each is among them with probability c / n, and the counts are binomial."""
    counts = Counter(client for _, client in arrivals(20, model, concurrency, moments * concurrency))
    p = concurrency / 20
    assert max(abs(counts[i] - moments * p) for i in range(20)) < 5 * math.sqrt(moments * p * (1 - p))


@pytest.mark.parametrize("concurrency", [5, 20])
def test_equal_clients_are_first_and_last_equally_often(concurrency: int) -> None:
    places = np.zeros(20)
    for j, (_, client) in enumerate(arrivals(20, delays.Fixed(1.0), concurrency, 400 * concurrency)):
        places[client] += (j % concurrency) / (concurrency - 1) - 0.5
    # Places are uniform on [-1/2, 1/2], with a variance of at most 1/8, and 400 concurrency / 20 of them for each.
    assert np.max(np.abs(places)) < 6 * math.sqrt(20 * concurrency / 8)


def test_the_order_of_a_moment_is_that_of_the_seed_and_changes() -> None:
    first, again = (arrivals(6, delays.Fixed(1.0), 6, 60) for _ in range(2))
    assert first == again
    moments = [tuple(client for _, client in first[6 * j : 6 * j + 6]) for j in range(10)]
    assert all(sorted(moment) == list(range(6)) for moment in moments)
    assert len(set(moments)) > 5


def test_who_arrives_at_one_moment_reads_what_all_of_them_have_made() -> None:
    problem = feddr.Problem.regression(feddr.models.linear(3), make_regression((4, 9, 6), 3, seed=1))
    result = feddr.simulate_async(problem, feddr.FedAsync(), local=SGD, updates=9)
    assert [event.arrived - event.read for event in result.events if event.arrived >= 0] == [0, 1, 2] * 3
    assert result.tau == 2


def test_a_run_interrupted_within_a_moment_resumes_bit_for_bit(tmp_path: Path) -> None:
    problem = feddr.Problem.regression(feddr.models.linear(3), make_regression((4, 9, 6, 5), 3, seed=1))

    def run(stop: int, **more: Any) -> feddr.Result:
        def ends(progress: Progress) -> bool:
            return progress.round == stop

        algorithm = feddr.FedAsync(alpha=0.5)
        return feddr.simulate_async(
            problem, algorithm, local=SGD, updates=13, concurrency=3, evaluate_every=1, callback=ends, **more
        )

    whole = run(13)
    for stop in (4, 5, 9, 13):  # three arrive at each moment
        cut = run(stop, checkpoint=feddr.Checkpoint(tmp_path, resume=stop > 4))
    assert cut.events == whole.events
    assert all(np.array_equal(a, b) for a, b in zip(tree.leaves(cut.params), tree.leaves(whole.params), strict=True))
    assert cut.history.column("F") == whole.history.column("F")
