"""Clients that leave a run for good: a request in the run's folder, which the server takes up while it runs or resumes.

What the server counts for the client is taken out of the mean, so that xtilde = sum_i v_i xhat_i (INV) holds over
those who stay, and the client is asked for nothing any more. What others have learnt from it before stays in their
models: this is no unlearning, but the fixed point that the run goes to from then on is that of the others alone.
"""

from collections.abc import Iterator
from pathlib import Path

from feddr.flower import secure_ledger
from feddr.flower.inspect import read_run
from feddr.flower.journal import Journal
from feddr.flower.ledger import Ledger
from feddr.storage import atomic
from feddr.validation import scalars

REQUESTS = "leaving"
"""The folder of requests in that of a run, a file for each client."""


def leave(folder: str | Path, client: int) -> None:
    """Ask the server of a run to let a client go for good, at its next look or when it is started again.

    Parameters
    ----------
    folder
        That of the run, ``.../server/<name>``.
    client
        Its number.

    Raises
    ------
    ValueError
        Where there is no such client, it has left, or the rounds are secure, so that nobody knows what is counted for
        it.
    FileNotFoundError
        Where there is no run in the folder.

    Examples
    --------
    >>> leave("state/server/nobody", 3)
    Traceback (most recent call last):
    FileNotFoundError: There is no ledger of a run in state/server/nobody; the folder is <root>/server/<name>.
    """
    folder, client = Path(folder), scalars.whole("client", client)
    run = read_run(folder)
    if not 0 <= client < len(run.weights):
        raise ValueError(f"The clients of this run are 0 to {len(run.weights) - 1}, got {client}.")
    if client in run.left:
        raise ValueError(f"A client leaves once, client {client} has left this run.")
    secure_ledger.check_leave(run.settings, client)
    (folder / REQUESTS).mkdir(exist_ok=True)
    atomic.write(folder / REQUESTS / str(client), b"")


def departures(ledger: Ledger, journal: Journal) -> Iterator[int]:
    """Let those go who were asked for, and yield each once the ledger has committed it."""
    folder = ledger.folder / REQUESTS
    names = [path.name for path in folder.iterdir()] if folder.exists() else []
    for client in sorted(int(name) for name in names if name.isdecimal()):
        if client not in ledger.left:  # else the server ended before it could take the request away
            try:
                ledger.leave(client)
            except ValueError as error:
                journal.write("leave_refused", client=client, reason=str(error))
            else:
                journal.write("left", client=client, version=ledger.version)
                yield client
        (folder / str(client)).unlink(missing_ok=True)
