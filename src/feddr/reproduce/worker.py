"""A worker process for runs of figures, for ``feddr.tune.Processes``: as ``feddr.tune.worker``, with histories."""

import contextlib
import io
import sys

from feddr.tune.worker import main

COMMAND = (sys.executable, "-P", "-m", "feddr.reproduce.worker")


def answer(line: str) -> str:
    """Make a run, from a line to a line."""
    from feddr.reproduce.runs import execute
    from feddr.tune.jobs import RunSpec

    with contextlib.redirect_stderr(io.StringIO()):
        return execute(RunSpec.loads(line)).dumps()


if __name__ == "__main__":
    main(answer)
