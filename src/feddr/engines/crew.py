"""The threads of a run: the one that asks for work to be done is one of them."""

from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, Self

from feddr import limits


class Crew:
    """Threads that do things side by side.

    The thread that asks does not wait to be woken while others work: that would cost it a tenth of a millisecond, and
    the things that it can do itself.

    Parameters
    ----------
    threads
        How many work at a time, one for each core by default.
    """

    def __init__(self, threads: int | None = None) -> None:
        if threads is not None and threads < 1:
            raise ValueError(f"threads must be at least 1, got {threads}; None takes all cores.")
        self.others = (threads or limits.cores()) - 1
        self._pool = ThreadPoolExecutor(self.others) if self.others else None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._pool is not None:
            self._pool.shutdown()

    def each(self, do: Callable[[Any], None], things: Iterable[Any]) -> None:
        """Do something with each of some things, begun in order; after an error nothing more is begun."""
        waiting = deque(things)

        def work() -> None:
            try:
                while (thing := _next(waiting)) is not None:
                    do(thing)
            except BaseException:
                waiting.clear()
                raise

        helpers: list[Future[None]] = []
        if self._pool is not None:
            helpers = [self._pool.submit(work) for _ in range(min(self.others, len(waiting) - 1))]
        try:
            work()
        finally:
            wait(helpers)
        for helper in helpers:
            helper.result()


def _next(waiting: deque[Any]) -> Any:
    """Take the first of those that wait, None where there is none; two threads may ask at the same time."""
    try:
        return waiting.popleft()
    except IndexError:
        return None
