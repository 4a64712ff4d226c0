import functools
import threading
import time

import pytest

from feddr.storage import limits
from feddr.xla.thread_pool import ThreadPool


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("count", [0, 1, 2, 50])
def test_everything_is_done_once_and_before_each_returns(threads: int, count: int) -> None:
    done: list[int] = []
    with ThreadPool(threads) as crew:
        for _ in range(2):  # a crew can be asked again
            crew.each(done.append, range(count))
    assert sorted(done) == sorted([*range(count), *range(count)])


def test_one_thread_keeps_the_order() -> None:
    done: list[int] = []
    with ThreadPool(1) as crew:
        crew.each(done.append, range(9))
    assert done == list(range(9))


@pytest.mark.parametrize("threads", [1, 3])
def test_as_many_work_at_a_time_as_there_are_threads_and_the_one_that_asks_is_free_for_ctrl_c(threads: int) -> None:
    together, workers = threading.Barrier(threads, timeout=30), set()

    def work(_: int) -> None:
        workers.add(threading.get_ident())
        together.wait()  # passes only if that many are at work

    with ThreadPool(threads) as crew:
        crew.each(work, range(2 * threads))
    assert len(workers) == threads
    assert threading.get_ident() not in workers


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

    with ThreadPool(threads) as crew, pytest.raises(ValueError, match="is wrong"):
        crew.each(work, range(100))
    assert len(begun) <= 2 * threads


def first_waits(event: threading.Event, thing: int) -> None:
    assert thing or event.wait(30)


@pytest.mark.parametrize("threads", [2, 3])
def test_who_has_nothing_left_to_do_does_something_else_meanwhile(threads: int) -> None:
    done: list[int] = []
    enough = threading.Event()

    def also(i: int) -> None:
        done.append(i)
        if len(done) == 5:
            enough.set()

    with ThreadPool(threads) as crew:
        for _ in range(2):  # a crew can be asked again
            done.clear()
            enough.clear()
            crew.each(lambda _: None, [0], (functools.partial(also, i) for i in range(5)))
            assert not done  # a thread that works alone has nobody to wait for
            crew.each(functools.partial(first_waits, enough), [0, 1, 2], (functools.partial(also, i) for i in range(5)))
            assert sorted(done) == list(range(5))


def test_something_else_ends_with_the_work_and_is_not_waited_for() -> None:
    begun: list[int] = []
    released = threading.Event()

    def also(i: int) -> None:
        begun.append(i)
        released.wait(30)

    def work(i: int) -> None:
        end = time.monotonic() + 30
        while i == 0 and not begun:
            assert time.monotonic() < end
            time.sleep(0.001)

    with ThreadPool(2) as crew:
        crew.each(work, [0, 1], (functools.partial(also, i) for i in range(9)))
        assert not released.is_set()
        released.set()
    assert begun == [0]


def test_an_error_in_something_else_is_no_error_of_the_work() -> None:
    failed = threading.Event()

    def fail() -> None:
        failed.set()
        raise ValueError("nobody needs this")

    with ThreadPool(2) as crew:
        crew.each(functools.partial(first_waits, failed), [0, 1], [fail])
    assert failed.is_set()


def test_threads_by_default_and_refused() -> None:
    with ThreadPool() as crew:
        assert crew.threads == limits.cores()
    with pytest.raises(ValueError, match="threads must be at least 1, got 0"):
        ThreadPool(0)
