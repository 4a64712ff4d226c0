import threading

import pytest

from feddr import limits
from feddr.engines.crew import Crew


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("count", [0, 1, 2, 50])
def test_everything_is_done_once_and_before_each_returns(threads: int, count: int) -> None:
    done: list[int] = []
    with Crew(threads) as crew:
        for _ in range(2):  # a crew can be asked again
            crew.each(done.append, range(count))
    assert sorted(done) == sorted([*range(count), *range(count)])


def test_one_thread_is_the_one_that_asks_and_keeps_the_order() -> None:
    done: list[tuple[int, int]] = []
    with Crew(1) as crew:
        crew.each(lambda i: done.append((i, threading.get_ident())), range(9))
    assert done == [(i, threading.get_ident()) for i in range(9)]


def test_as_many_work_at_a_time_as_there_are_threads_and_the_one_that_asks_is_among_them() -> None:
    together, workers = threading.Barrier(3, timeout=30), set()

    def work(_: int) -> None:
        workers.add(threading.get_ident())
        together.wait()  # passes only if three are at work

    with Crew(3) as crew:
        crew.each(work, range(6))
    assert len(workers) == 3
    assert threading.get_ident() in workers


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("wrong", [0, 1])
def test_an_error_is_raised_whoever_met_it_and_nothing_more_is_begun(threads: int, wrong: int) -> None:
    begun: list[int] = []
    together = threading.Barrier(threads, timeout=30)

    def work(i: int) -> None:
        begun.append(i)
        if i < threads:
            together.wait()
        if i == wrong or i >= threads:
            raise ValueError(f"{i} is wrong")

    with Crew(threads) as crew, pytest.raises(ValueError, match="is wrong"):
        crew.each(work, range(100))
    assert len(begun) <= 2 * threads


def test_threads_by_default_and_refused() -> None:
    with Crew() as crew:
        assert crew.others == limits.cores() - 1
    with pytest.raises(ValueError, match="threads must be at least 1, got 0"):
        Crew(0)
