"""A worker process for runs: reads one line of JSON for each run, and writes one line.

``python -m feddr.tune.worker`` reads its standard input and ends when that is closed, also in the middle of a run, so
that no worker outlives the program that started it.
"""

import contextlib
import io
import os
import queue
import sys
import threading
from collections.abc import Callable


def main(answer: Callable[[str], str]) -> None:
    """Answer until there is nobody to answer to."""
    # The standard output is for answers; what anything else prints goes where errors go.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    lines: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(lines,), daemon=True).start()
    while True:
        print(answer(lines.get()), file=answers, flush=True)


def answer(line: str) -> str:
    """Run a job, from a line to a line."""
    from feddr.tune.jobs import RunSpec, execute

    with contextlib.redirect_stderr(io.StringIO()):  # such as the reasons for recommended step sizes
        return execute(RunSpec.loads(line)).dumps()


def _listen(lines: "queue.SimpleQueue[str]") -> None:
    for line in sys.stdin:
        lines.put(line)
    os._exit(0)


if __name__ == "__main__":
    main(answer)
