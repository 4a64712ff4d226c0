"""A process of its own for runs of figures: a line of JSON comes in for each, and a line goes out.

``python -m feddr.reproduce.worker`` is for ``feddr.tune.Processes``, as ``feddr.tune.worker`` is, and keeps histories.
"""

import contextlib
import io
import os
import queue
import sys
import threading

COMMAND = (sys.executable, "-P", "-m", "feddr.reproduce.worker")


def main() -> None:
    """Answer until there is nobody to answer to."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what anything else prints goes where errors go
    lines: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(lines,), daemon=True).start()
    while True:
        print(answer(lines.get()), file=answers, flush=True)


def answer(line: str) -> str:
    """Make a run, from a line to a line."""
    from feddr.reproduce.runs import execute
    from feddr.tune.jobs import Job

    with contextlib.redirect_stderr(io.StringIO()):
        return execute(Job.loads(line)).dumps()


def _listen(lines: "queue.SimpleQueue[str]") -> None:
    for line in sys.stdin:
        lines.put(line)
    os._exit(0)


if __name__ == "__main__":
    main()
