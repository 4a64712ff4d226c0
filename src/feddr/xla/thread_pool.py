"""The thread pool of a run: clients are computed side by side, and idle threads prefetch the next round's batches."""

from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, wait
from threading import Lock
from typing import Any, Self

from feddr.storage import limits
from feddr.validation import scalars


class ThreadPool:
    """Threads that do things side by side.

    The thread that asks does nothing itself. A client may take hours in compiled code, which no signal interrupts, and
    Ctrl-C is answered by the main thread.

    Parameters
    ----------
    threads
        How many work at a time, one for each core by default.
    """

    def __init__(self, threads: int | None = None) -> None:
        if threads is not None:
            threads = scalars.whole("threads", threads, 1, "None takes all cores")
        self.threads = threads or limits.cores()
        self._pool = ThreadPoolExecutor(self.threads)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._pool.shutdown()

    def each(
        self, do: Callable[[Any], None], things: Iterable[Any], meanwhile: Iterable[Callable[[], None]] = ()
    ) -> None:
        """Call ``do`` with each of ``things``, started in order; after an error no more are started.

        Idle threads run the functions of ``meanwhile``, one after the other, until the last thing is done. Nobody waits
        for these functions, and their exceptions are ignored.
        """
        waiting, others, turn = deque(things), iter(meanwhile), Lock()
        at_work = set(range(min(self.threads, len(waiting))))

        def work(me: int) -> None:
            try:
                while (thing := _next(waiting)) is not None:
                    do(thing)
            except BaseException:
                waiting.clear()
                raise
            finally:
                at_work.discard(me)
            if at_work:
                self._pool.submit(help_out)

        def help_out() -> None:
            while at_work:
                with turn:  # a generator serves one thread at a time
                    other = next(others, None)
                if other is None:
                    return
                other()

        workers = [self._pool.submit(work, me) for me in sorted(at_work)]
        try:
            wait(workers)
        finally:
            waiting.clear()
        for worker in workers:
            worker.result()


def _next(waiting: deque[Any]) -> Any:
    """Take the first waiting item, None if there is none; two threads may ask at the same time."""
    try:
        return waiting.popleft()
    except IndexError:
        return None
