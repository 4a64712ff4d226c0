"""The threads of a run."""

from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any, Self

from feddr import limits


class Crew:
    """Threads that do things side by side.

    The thread that asks does nothing itself. A client may take hours in compiled code, which no signal interrupts, and
    Ctrl-C is answered by the main thread.

    Parameters
    ----------
    threads
        How many work at a time, one for each core by default.
    """

    def __init__(self, threads: int | None = None) -> None:
        if threads is not None and threads < 1:
            raise ValueError(f"threads must be at least 1, got {threads}; None takes all cores.")
        self.threads = threads or limits.cores()
        self._pool = ThreadPoolExecutor(self.threads)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
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

        workers = [self._pool.submit(work) for _ in range(min(self.threads, len(waiting)))]
        try:
            wait(workers)
        finally:
            waiting.clear()
        for worker in workers:
            worker.result()


def _next(waiting: deque[Any]) -> Any:
    """Take the first of those that wait, None where there is none; two threads may ask at the same time."""
    try:
        return waiting.popleft()
    except IndexError:
        return None
