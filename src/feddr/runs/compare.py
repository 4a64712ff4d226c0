"""Several methods on one problem, with several seeds each: ``feddr.compare``, and what it returns."""

import csv
import dataclasses
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from feddr.history import COUNTERS, History, Row
from feddr.validation import scalars

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from feddr.algorithms import Algorithm
    from feddr.engines.result import Result
    from feddr.local import LocalSolver
    from feddr.problem import Problem


@dataclass(frozen=True)
class Comparison:
    """What several methods came to, with each of some seeds.

    Parameters
    ----------
    histories
        By method and seed; that of a run that diverged ends at the last evaluation before.
    results
        By method and seed, of the runs that came to their end.
    failures
        Why the others diverged.

    Examples
    --------
    >>> runs = {seed: History([Row(round=0, F=2.0), Row(round=10, F=seed / 2)]) for seed in (0, 1)}
    >>> found = Comparison({"FedDR": runs})
    >>> found.table["F"].tolist(), found.spread["F"].round(4).tolist()
    ([0.25], [0.3536])
    """

    histories: Mapping[str, Mapping[int, History]]
    results: "Mapping[str, Mapping[int, Result]]" = field(default_factory=dict)
    failures: Mapping[tuple[str, int], str] = field(default_factory=dict)

    @property
    def table(self) -> "pd.DataFrame":
        """The last row of each method, the mean over its seeds; NaN where a seed diverged."""
        import numpy as np

        return self._over_seeds(np.mean)

    @property
    def spread(self) -> "pd.DataFrame":
        """The standard deviation of the last rows over the seeds; NaN for a single seed."""
        import numpy as np

        return self._over_seeds(lambda values: np.std(values, ddof=1) if len(values) > 1 else float("nan"))

    def to_pandas(self) -> "pd.DataFrame":
        """Return all rows of all runs, with the columns ``algorithm`` and ``seed`` before those of a history."""
        import pandas as pd

        return pd.DataFrame(self._rows())

    def means(self) -> dict[str, Row]:
        """Return the last row of each method, the mean over its seeds; counters are rounded."""
        rows = {}
        for label, values in _by_label(self.table).items():
            if any(self._diverged(label, seed) for seed in self.histories[label]):
                continue
            own = {f.name for f in dataclasses.fields(Row)}
            columns: dict[str, Any] = {
                name: round(value) if name in COUNTERS else value for name, value in values.items() if name in own
            }
            rows[label] = Row(**columns, metrics={k: v for k, v in values.items() if k not in own})
        return rows

    def figure(self, title: str = "", metrics: Sequence[str] = ()) -> "Figure":
        """Return metrics against rounds, a line for each method with a band over its seeds; see ``plots.bands``."""
        from feddr import plots

        shown = {label: [one for one in runs.values() if one.rows] for label, runs in self.histories.items()}
        return plots.bands({label: runs for label, runs in shown.items() if runs}, title, metrics)

    def save(self, folder: str | Path) -> Path:
        """Write comparison.csv, summary.csv, comparison.png and a folder ``<method>/seed-<seed>`` for each run.

        ``feddr report`` makes a page of any of these folders.
        """
        from feddr import plots

        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        for label, runs in self.results.items():
            for seed, result in runs.items():
                result.save(folder / label / f"seed-{seed}")
        self.write(folder)
        plots.save(self.figure(), folder / "comparison.png")
        return folder

    def write(self, folder: Path) -> None:
        """Write comparison.csv, all rows, and summary.csv, mean and spread of the last ones."""
        write_rows(folder / "comparison.csv", self._rows())
        mean, spread = _by_label(self.table), _by_label(self.spread.add_suffix("_spread"))
        lines: list[dict[str, Any]] = [
            {"algorithm": label, "seeds": len(runs), **mean[label], **spread[label]}
            for label, runs in self.histories.items()
        ]
        write_rows(folder / "summary.csv", lines)

    def _rows(self) -> list[dict[str, Any]]:
        return [
            {"algorithm": label, "seed": seed, **row.to_dict()}
            for label, runs in self.histories.items()
            for seed, history in runs.items()
            for row in history.rows
        ]

    def _diverged(self, label: str, seed: int) -> bool:
        return (label, seed) in self.failures or not self.histories[label][seed].rows

    def _over_seeds(self, reduce: Callable[[list[float]], Any]) -> "pd.DataFrame":
        import pandas as pd

        names = dict.fromkeys(name for runs in self.histories.values() for one in runs.values() for name in one.columns)
        lines = {}
        for label, runs in self.histories.items():
            whole = not any(self._diverged(label, seed) for seed in runs)
            last = [one.last.to_dict() for one in runs.values()] if whole else []
            columns = {name: [float(row.get(name, "nan")) for row in last] for name in names}
            lines[label] = {name: float(reduce(values)) if values else float("nan") for name, values in columns.items()}
        table = pd.DataFrame.from_dict(lines, orient="index", columns=list(names))
        return table.rename_axis("algorithm")


def compare(
    problem: "Problem",
    algorithms: "Mapping[str, Algorithm]",
    *,
    local: "LocalSolver | Mapping[str, LocalSolver]",
    rounds: int,
    seeds: Iterable[int] = (0,),
    updates: int | None = None,
    **arguments: Any,
) -> Comparison:
    """Run several algorithms on one problem, with each of some seeds, and return them side by side.

    Parameters
    ----------
    problem
        What to minimise, the same for all.
    algorithms
        By label, such as ``{"FedDR": feddr.FedDR(), "FedAvg": feddr.FedAvg()}``.
    local
        How clients solve their subproblems; or one solver for each label.
    rounds
        Number of rounds.
    seeds
        Which draw the active clients and the batches; data and start are those of the problem.
    updates
        Updates of the server for asynchronous algorithms, which ``simulate_async`` runs; as many as rounds by default.
    arguments
        Further arguments of ``feddr.simulate``: ``sampling``, ``metrics``, ``per_client``, ``stop_when``, ``clock``.
        Checkpoints go into a folder for each run below the given one.

    Returns
    -------
    Comparison
        With ``table`` (pandas, the means), ``spread``, ``figure()`` and ``save(folder)``. A method that diverges has no
        numbers in the table, and its reason in ``failures``.

    Raises
    ------
    ValueError
        Where there is no algorithm or no seed, a label has no solver, or an algorithm does not fit the problem.

    Examples
    --------
    >>> import numpy as np, feddr
    >>> data = feddr.FederatedData.from_clients([{"x": np.eye(2), "y": np.ones(2)}] * 2)
    >>> problem = feddr.Problem.regression(feddr.models.linear(2), data)
    >>> found = feddr.compare(
    ...     problem,
    ...     {"FedDR": feddr.FedDR(eta=1.0, alpha=1.2), "FedAvg": feddr.FedAvg()},
    ...     local=feddr.local.SGD(lr=0.1, epochs=5),
    ...     rounds=2,
    ...     seeds=[0, 1],
    ... )
    >>> list(found.table.index), found.to_pandas().shape[0]
    (['FedDR', 'FedAvg'], 8)
    """
    from feddr.algorithms import Asynchronous
    from feddr.checkpoint import Checkpoint
    from feddr.engines.asynchronous import simulate_async
    from feddr.engines.shared.errors import DivergedError
    from feddr.engines.simulate import simulate

    if not isinstance(algorithms, Mapping) or not algorithms:
        raise ValueError(f'algorithms must be some by label, got {algorithms!r}; such as {{"FedDR": feddr.FedDR()}}.')
    numbers = [scalars.whole("seeds", seed, 0) for seed in seeds]
    if not numbers or len(set(numbers)) < len(numbers):
        raise ValueError(f"seeds must be whole numbers that differ, at least one, got {numbers}.")
    solvers = {label: local.get(label) if isinstance(local, Mapping) else local for label in algorithms}
    missing = [label for label, solver in solvers.items() if solver is None]
    if missing:
        raise ValueError(f"local needs a solver for each algorithm, it has none for {missing[0]}; add it.")
    histories: dict[str, dict[int, History]] = {}
    results: dict[str, dict[int, Result]] = {}
    failures: dict[tuple[str, int], str] = {}
    for label, algorithm in algorithms.items():
        histories[label], results[label] = {}, {}
        for seed in numbers:
            more: dict[str, Any] = {"local": solvers[label], "seed": seed, **arguments}
            where = Checkpoint.of(arguments.get("checkpoint"))
            if where is not None:
                more["checkpoint"] = dataclasses.replace(where, folder=Path(where.folder, label, f"seed-{seed}"))
            try:
                if isinstance(algorithm, Asynchronous):
                    more.pop("sampling", None)
                    result = simulate_async(problem, algorithm, updates=rounds if updates is None else updates, **more)
                else:
                    result = simulate(problem, algorithm, rounds=rounds, **more)
            except DivergedError as error:
                print(f"{label}, seed {seed}: {error}", file=sys.stderr)
                failures[label, seed] = str(error)
                histories[label][seed] = error.history
            else:
                results[label][seed], histories[label][seed] = result, result.history
    return Comparison(histories, results, failures)


def _by_label(table: "pd.DataFrame") -> dict[str, dict[str, float]]:
    return {str(label): {str(k): float(v) for k, v in line.items()} for label, line in table.to_dict("index").items()}


def write_rows(path: Path, rows: Iterable[Mapping[str, Any]], first: Sequence[str] = ()) -> None:
    """Write rows as CSV, with all columns that one of them has, those named ``first`` before the others."""
    lines = list(rows)
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(dict.fromkeys([*first, *(name for line in lines for name in line)])))
        writer.writeheader()
        writer.writerows(lines)
