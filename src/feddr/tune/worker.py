"""A worker process for runs: reads one line of JSON for each run, and writes one line.

``python -m feddr.tune.worker`` reads its standard input and ends when that is closed, also in the middle of a run, so
that no worker outlives the program that started it. The function ``execute`` of a module does the runs: of
``feddr.tune.jobs``, unless the command line names another one.
"""

import importlib
import os
import queue
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from feddr.tune.jobs import RunRecord


def main(*module: str) -> None:
    """Run jobs until the standard input is closed."""
    # stdout is reserved for answers; anything else that prints is redirected to stderr.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    lines: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(lines,), daemon=True).start()
    while True:
        print(answer(lines.get(), *module), file=answers, flush=True)


def answer(line: str, module: str = "feddr.tune.jobs") -> str:
    """Run the job of a line of JSON, and return its record as a line."""
    from feddr.tune.jobs import RunSpec

    execute: Callable[[RunSpec], RunRecord] = importlib.import_module(module).execute
    return execute(RunSpec.loads(line)).dumps()


def _listen(lines: "queue.SimpleQueue[str]") -> None:
    for line in sys.stdin:
        lines.put(line)
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
