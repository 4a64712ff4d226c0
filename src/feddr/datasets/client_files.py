"""Clients whose samples stay in files, one for each, until they take part: here, or on the workers of a cluster."""

import glob
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from feddr.data import FederatedData, Samples
from feddr.datasets.npz import read_npz, rows
from feddr.datasets.tables import num_rows, read_table
from feddr.validation import arrays, scalars


def client_files(
    files: str | Sequence[str],
    label: str = "y",
    *,
    sizes: Sequence[int] | None = None,
    panel: int = 1000,
    regression: bool = False,
    seed: int = 0,
) -> FederatedData:
    """Return a federation with a file for each client, which is read when the client takes part.

    Parameters
    ----------
    files
        Paths, or a pattern such as ``"clients/*.npz"``, whose matches are taken in the order of their names. On a
        cluster a file is read by the worker that has its client, under the same path on that worker's machine.
    label
        What to predict: an array of an npz file, whose features are the array ``x``; or a column of a CSV or Parquet
        file (extra ``parquet``) with numbers alone, whose features are all other columns, in their order in the first
        file.
    sizes
        Number of samples of each client. Without it the files are looked at once, on this machine: of npz files the
        headers, of Parquet files the footers, of CSV files every line. With it only the files of the panel have to be
        here, and the first table.
    panel
        Number of clients, drawn at random, that metrics are computed on; their samples are read once and stay in
        memory. All of them where there are no more.
    regression
        Whether the label is a number to predict; otherwise it is the number of a class, from 0.
    seed
        Draws the panel.

    Returns
    -------
    FederatedData
        ``x``: float32, images of bytes as numbers from 0 to 1; ``y``: int32, or float32 for a regression. The names of
        clients are those of their files, without the suffix.

    Raises
    ------
    ValueError
        Where there is no such file, or a file is not what was said of it; also later, when a client takes part.

    Examples
    --------
    >>> import tempfile, numpy as np, feddr
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name, rows in (("ann", 3), ("bob", 2)):
    ...         np.savez(f"{folder}/{name}.npz", x=np.ones((rows, 2)), y=np.zeros(rows, int))
    ...     data = feddr.datasets.client_files(f"{folder}/*.npz", panel=1)
    ...     clients = [data.client(i)["x"].shape for i in range(2)]
    >>> data.clients, data.sizes.tolist(), clients
    (('ann', 'bob'), [3, 2], [(3, 2), (2, 2)])
    """
    paths = sorted(glob.glob(os.path.expanduser(files))) if isinstance(files, str) else list(files)
    if not paths:
        raise ValueError(f"client_files needs a file for each client, got {files!r}, which is none; give their paths.")
    absolute = tuple(os.path.abspath(os.path.expanduser(path)) for path in paths)
    if sizes is None:
        sizes = [_size(Path(path), label) for path in absolute]
    elif len(sizes) != len(absolute):
        raise ValueError(f"sizes needs a number for each of {len(absolute)} files, got {len(sizes)}.")
    size = min(scalars.whole("panel", panel, 1), len(absolute))
    chosen = sorted(np.random.default_rng(seed).choice(len(absolute), size, replace=False).tolist())
    features = () if _is_npz(absolute[0]) else table_features(absolute[0], label)
    data = FederatedData.generated(ClientFiles(absolute, label, regression, features), sizes, chosen)
    names = tuple(Path(path).stem for path in absolute)
    return FederatedData(data.train, on_demand=data.on_demand, features=features, clients=names)


@dataclass(frozen=True)
class ClientFiles:
    """The function from a client to its samples, which reads its file; it travels to workers as a list of paths.

    Parameters
    ----------
    paths
        One for each client, absolute.
    label
        The array or the column to predict.
    regression
        Whether that is a number, not a class.
    features
        The other columns of tables, in order; none for npz files.
    """

    paths: tuple[str, ...]
    label: str
    regression: bool
    features: tuple[str, ...] = ()

    def __call__(self, i: int) -> Samples:
        """Return the samples of client i: ``x`` and ``y``."""
        path = Path(self.paths[i])
        if not path.is_file():
            raise ValueError(
                f"Client {i} needs the file {path}, which is not there; on a cluster, the machine of every worker "
                "needs it under this path."
            )
        x, y = self._arrays(path) if _is_npz(path.name) else self._columns(path)
        return {"x": x, "y": y.astype(np.float32) if self.regression else self._classes(path, y)}

    def _arrays(self, path: Path) -> tuple[NDArray[Any], NDArray[Any]]:
        stored = read_npz(path, ["x", self.label])
        x = stored["x"]
        x = arrays.pixels(f"{path}: x", x) if x.ndim > 2 else arrays.samples(f"{path}: x", x)
        return x.astype(np.float32, copy=False), stored[self.label]

    def _columns(self, path: Path) -> tuple[NDArray[Any], NDArray[Any]]:
        table = read_table(path)
        if sorted(map(str, table.columns)) != sorted((*self.features, self.label)):
            raise ValueError(
                f"{path}: needs the columns {', '.join((*self.features, self.label))}, it has "
                f"{', '.join(map(str, table.columns))}."
            )
        times = list(table.select_dtypes(["datetime", "datetimetz", "timedelta"]).columns)
        if times:
            raise ValueError(
                f"{path}: must have numbers alone, {times[0]} holds times; store them as numbers, such as days since "
                "a date."
            )
        try:
            numbers = table[[*self.features, self.label]].to_numpy(np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"{path}: must have numbers alone ({error}); prepare it, or use feddr.datasets.csv."
            ) from None
        if not np.isfinite(numbers).all():
            raise ValueError(f"{path}: must have a finite number in every place; fill in or leave out what is missing.")
        return numbers[:, :-1].astype(np.float32), numbers[:, -1]

    def _classes(self, path: Path, y: NDArray[Any]) -> NDArray[np.int32]:
        classes = y.astype(np.int32)
        if not np.array_equal(classes, y) or np.any(classes < 0):
            raise ValueError(
                f"{path}: {self.label} must be numbers of classes, whole and from 0; use regression=True for numbers "
                "to predict."
            )
        return classes


def table_features(path: str, label: str) -> tuple[str, ...]:
    """Return the names of all columns of a table but that of the label."""
    columns = list(map(str, read_table(path).columns))
    if columns.count(label) != 1 or len(set(columns)) < len(columns) or len(columns) == 1:
        raise ValueError(
            f"{path}: needs a column {label} to predict and others, each once, it has {', '.join(columns)}."
        )
    return tuple(name for name in columns if name != label)


def _is_npz(path: str) -> bool:
    return path.endswith(".npz")


def _size(path: Path, label: str) -> int:
    if not path.is_file():
        raise ValueError(f"{path}: no such file; give sizes=..., if it is on other machines alone.")
    return rows(path, label) if _is_npz(path.name) else num_rows(path)
