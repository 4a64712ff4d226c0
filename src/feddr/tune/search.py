"""The loop of a search: runs that are missing go to an executor, and each record is stored at once."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from feddr.storage import limits
from feddr.tune.jobs import RunRecord, RunSpec
from feddr.tune.plan import Search, plan
from feddr.tune.pool import Executor, Processes
from feddr.tune.ranking import RankedSetting, rank
from feddr.tune.store import Store

Notice = Callable[[RunRecord], None]
"""Called with each record, once it is stored."""


def run(
    search: Search,
    store: Store,
    executor: Executor,
    notice: Notice = lambda _: None,
    stopping: Callable[[], bool] = lambda: False,
) -> None:
    """Run the jobs of a search that the store does not have.

    Parameters
    ----------
    executor
        Who runs them.
    stopping
        Returns whether to start no more jobs; those in progress are finished.

    Examples
    --------
    >>> import feddr
    >>> search = feddr.tune.plan(feddr.config.EXAMPLE, grid={"algorithm.FedDR.eta": [1, 10]}, seeds=[0], metric="F")
    >>> import tempfile, pathlib
    >>> with tempfile.TemporaryDirectory() as folder, feddr.tune.Store(pathlib.Path(folder), search) as store:
    ...     feddr.tune.run(search, store, lambda jobs: iter([]))  # an executor that runs nothing
    ...     print(store.done(("FedDR", 0, 0)))
    False
    """

    def missing() -> Iterator[RunSpec]:
        for job in search.jobs():
            if stopping():
                return
            if not store.done(job.key):
                yield job

    for record in executor(missing()):
        store.add(record)
        notice(record)


def tune(
    experiment: Mapping[str, Any], folder: str | Path, executor: Executor | None = None, **options: Any
) -> dict[str, list[RankedSetting]]:
    """Search for the best settings of an experiment, and return those of each algorithm, the best first.

    Parameters
    ----------
    experiment
        The tables of a config, as ``feddr.config.read`` returns them.
    folder
        Where records are kept. A search that is there already is resumed.
    executor
        Who does the runs: one process for each core by default, or ``feddr.tune.serial``.
    options
        As in the table ``[tune]``: grid, random, space, trials, seeds, metric, at, unequal.

    Examples
    --------
    A search over two step sizes of FedDR, with two seeds each::

        from feddr import config, tune

        ranking = tune.tune(
            config.read("first.toml"), "runs/search", grid={"algorithm.FedDR.eta": [1, 10]}, seeds=[0, 1]
        )
        print(ranking["FedDR"][0].words, ranking["FedDR"][0].mean)

    >>> import tempfile, feddr
    >>> grid = {"algorithm.FedDR.eta": [1, 10]}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ranking = tune(feddr.config.EXAMPLE, folder, lambda jobs: iter([]), grid=grid, seeds=[0])
    >>> [one.words for one in ranking["FedDR"]]
    ['eta=1', 'eta=10']
    """
    search = plan(experiment, **options)
    Path(folder).mkdir(parents=True, exist_ok=True)
    with Store(Path(folder), search) as store:
        run(search, store, executor or Processes(limits.cores()))
        return rank(search, store.records)
