"""Federated data: training, validation and test samples of each client, and what they are called."""

import reprlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral

import numpy as np
from numpy.typing import ArrayLike, NDArray

from feddr.data import adapters, construct, held_out
from feddr.data.samples import ClientSamples, OnDemand, Samples, concatenate, gather
from feddr.data.split import SplitRows
from feddr.display import Card, as_html, as_text
from feddr.preparation import Category, Preparation


@dataclass(frozen=True)
class FederatedData:
    """Training samples of each client and, where there are any, test samples.

    Parameters
    ----------
    train, test
        The samples in memory: those of all clients, or of the panel where the rest are made on demand.
    on_demand
        Where the samples of all clients come from, None where they are in memory.
    features
        Names of the columns of ``x``, empty for pixels and the like.
    classes
        Labels of the classes 0, 1, ... as they were in the data; empty where ``y`` is a number to predict.
    clients
        Names of the clients: writers, hospitals, users.
    preparation
        How raw columns became ``x`` and ``y``, None where they are as they were given.
    validation
        Samples of each client that are kept apart for choosing settings, None where there are none.

    Raises
    ------
    ValueError
        Where parts or names do not fit together.

    Examples
    --------
    >>> import numpy as np
    >>> data = FederatedData.from_clients([{"x": np.eye(2), "y": [0, 1]}, {"x": np.ones((1, 2)), "y": [1]}])
    >>> data.num_clients, data.train.sizes.tolist()
    (2, [2, 1])
    """

    train: ClientSamples
    test: ClientSamples | None = None
    on_demand: OnDemand | None = None
    features: tuple[str, ...] = ()
    classes: tuple[Category, ...] = ()
    clients: tuple[str, ...] = ()
    preparation: Preparation | None = None
    validation: ClientSamples | None = None

    def __post_init__(self) -> None:
        for name, part in (("test", self.test), ("validation", self.validation)):
            if part is not None and part.num_clients != self.train.num_clients:
                raise ValueError(
                    f"Training and {name} parts must have the same clients, got {self.train.num_clients} and "
                    f"{part.num_clients}; a client without {name} samples gets an empty {name} part."
                )
        for what in ("features", "classes", "clients"):
            object.__setattr__(self, what, tuple(getattr(self, what)))
        width = int(np.prod(self.train.samples["x"].shape[1:])) if "x" in self.train.samples else 0
        for what, names, wanted in (("features", self.features, width), ("clients", self.clients, self.num_clients)):
            if names and len(names) != wanted:
                raise ValueError(f"{what} needs a name for each of {wanted}, got {len(names)}.")
        if self.preparation is not None and self.features != self.preparation.features:
            raise ValueError(
                f"features must be those of the preparation, {reprlib.repr(self.preparation.features)}, got "
                f"{reprlib.repr(self.features)}."
            )

    @property
    def num_clients(self) -> int:
        """Number of clients n."""
        return len(self.sizes)

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        """Number of training samples of each client."""
        return self.train.sizes if self.on_demand is None else self.on_demand.sizes

    @property
    def panel(self) -> NDArray[np.int64]:
        """The clients that metrics are computed on: all of them, unless samples are made on demand."""
        return np.arange(self.train.num_clients) if self.on_demand is None else self.on_demand.panel

    def client(self, i: int) -> Samples:
        """Return the training samples of client i."""
        return self.train.client(i) if self.on_demand is None else self.on_demand.client(i)

    def part(self, name: str) -> ClientSamples | None:
        """Return the ``"train"``, ``"validation"`` or ``"test"`` part, None where there is none."""
        return self._parts().get(name)

    def _card(self) -> Card:
        names = f": {_some(self.clients)}" if self.clients else ""
        facts = {
            "clients": f"{self.num_clients:,}{names}",
            **{name: _described(part) for name, part in self._parts().items()},
            "features": _some(self.features),
            "classes": f"{len(self.classes)}: {_some(self.classes)}" if self.classes else "",
            "on demand": "samples are made when needed; those in memory are of the panel" if self.on_demand else "",
        }
        facts = {name: fact for name, fact in facts.items() if fact}
        return Card("FederatedData", facts, {"samples of each client, sorted": np.sort(self.sizes)[::-1].tolist()})

    __repr__, _repr_html_ = as_text, as_html

    def _parts(self) -> dict[str, ClientSamples]:
        """Return the parts that are there, by name."""
        parts = {"train": self.train, "validation": self.validation, "test": self.test}
        return {name: part for name, part in parts.items() if part is not None}

    from_frame = classmethod(construct.from_frame)
    from_arrays = classmethod(construct.from_arrays)
    from_torch = classmethod(adapters.from_torch)
    from_huggingface = classmethod(adapters.from_huggingface)
    with_validation = held_out.with_validation

    @classmethod
    def from_rows(
        cls,
        samples: Samples,
        rows: SplitRows,
        clients: Sequence[str] = (),
        preparation: Preparation | None = None,
        classes: Sequence[Category] = (),
    ) -> "FederatedData":
        """Build a federation from samples in one place and the rows of each client in each part, copied once.

        Parameters
        ----------
        samples
            Named arrays with one row a sample.
        rows
            The rows of each client for training, validation and testing.
        clients
            Names of the clients.
        preparation
            How raw columns became the samples; it names the features and the classes.
        classes
            Labels of the classes where there is no preparation.
        """
        train, validation, test = (None if part is None else gather(samples, part) for part in rows)
        assert train is not None
        return cls(
            train,
            test,
            features=() if preparation is None else preparation.features,
            classes=tuple(classes) if preparation is None else preparation.classes,
            clients=tuple(clients),
            preparation=preparation,
            validation=validation,
        )

    @classmethod
    def generated(
        cls,
        make: Callable[[int], Mapping[str, ArrayLike]],
        sizes: ArrayLike,
        panel: int | Sequence[int] = 1000,
        seed: int = 0,
    ) -> "FederatedData":
        """Build a federation whose clients make their samples when they take part: a million of them fit anywhere.

        Parameters
        ----------
        make
            From a client to its named arrays, the same whenever it is asked.
        sizes
            Number of samples of each client.
        panel
            The clients that metrics are computed on, or how many are drawn at random for that: F, the accuracies and
            the gradient mapping are then those of the panel, with weights scaled to sum to one. Certificates and
            recommended step sizes are about all clients, and make the samples of each.
        seed
            Draws the panel.

        Examples
        --------
        >>> import numpy as np
        >>> def make(i):
        ...     rng = np.random.default_rng(i)
        ...     return {"x": rng.normal(size=(3, 2)), "y": rng.integers(0, 2, 3)}
        >>> data = FederatedData.generated(make, sizes=np.full(1_000_000, 3), panel=100)
        >>> data.num_clients, data.train.num_samples
        (1000000, 300)
        """
        counts = _whole("sizes", sizes)
        n = len(counts)
        if n == 0 or np.any(counts < 1):
            raise ValueError(f"Every client needs at least one training sample, got {counts.min(initial=0)}.")
        if isinstance(panel, Integral):
            if panel < 1:
                raise ValueError(f"The panel needs at least one client, got {panel}.")
            panel = np.random.default_rng(seed).choice(n, min(int(panel), n), replace=False).tolist()
        chosen = np.unique(_whole("panel", panel))
        if len(chosen) == 0 or chosen[0] < 0 or chosen[-1] >= n:
            raise ValueError(f"The panel must be clients from 0 to {n - 1}, got {panel}.")
        source = OnDemand(make, counts, chosen)
        return cls(concatenate([source.client(int(i)) for i in chosen], "panel"), on_demand=source)

    @classmethod
    def from_clients(
        cls, train: Sequence[Mapping[str, ArrayLike]], test: Sequence[Mapping[str, ArrayLike]] | None = None
    ) -> "FederatedData":
        """Build a federation from one mapping of named arrays for each client.

        Parameters
        ----------
        train
            For each client, arrays or tables with one row a sample: ``{"x": ..., "y": ...}``. Every client has the same
            names and at least one sample. Real numbers of any type, truth values and whole numbers of 32 bits.
        test
            The same for test samples; a client may have none.
        """
        part = concatenate(train, "train")
        empty = np.flatnonzero(part.sizes == 0)
        if len(empty):
            raise ValueError(
                f"Every client needs at least one training sample, client {empty[0]} has none; leave it out."
            )
        return cls(part, None if test is None else concatenate(test, "test"))


def _whole(what: str, values: ArrayLike) -> NDArray[np.int64]:
    """Return a list of whole numbers as an array."""
    numbers = np.asarray(values)
    if numbers.ndim != 1 or numbers.dtype.kind not in "iuf" or not np.array_equal(numbers, np.floor(numbers)):
        raise ValueError(f"{what} must be whole numbers, one a client, got {reprlib.repr(values)}; round them first.")
    return numbers.astype(np.int64)


def _some(names: Sequence[object], most: int = 5) -> str:
    shown = ", ".join(reprlib.repr(str(name)).strip("'") for name in names[:most])
    return shown if len(names) <= most else f"{shown}, ... ({len(names):,})"


def _described(part: ClientSamples) -> str:
    arrays = ", ".join(
        f"{name} {' x '.join(map(str, a.shape[1:])) or 'one'} {a.dtype}" for name, a in list(part.samples.items())[:4]
    )
    few, most = int(part.sizes.min()), int(part.sizes.max())
    return f"{part.num_samples:,} samples ({few:,} to {most:,} a client), {arrays}"
