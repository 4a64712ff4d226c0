"""Federations from the data sets of other libraries: PyTorch's and Hugging Face's, through what they have in common.

Neither library is imported: a torch Dataset is something with a length and rows, a Hugging Face one has column names
too. The functions are methods of ``FederatedData``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from feddr.data.construct import check_classes, label_column
from feddr.data.split import split
from feddr.preparation import Category, columns
from feddr.preparation.preparation import as_column
from feddr.validation import arrays

if TYPE_CHECKING:
    from feddr.data.federated import FederatedData


def from_torch(
    cls: "type[FederatedData]",
    datasets: Mapping[str, Any] | Sequence[Any],
    test: Mapping[str, Any] | Sequence[Any] | None = None,
    *,
    regression: bool = False,
    test_share: float = 0.0,
    validation_share: float = 0.0,
    stratify: bool = False,
    seed: int = 0,
) -> "FederatedData":
    """Build a federation from one torch Dataset for each client.

    Every sample is asked for once, so transforms that draw at random are drawn once.

    Parameters
    ----------
    datasets
        For each client, by name or in a list, a Dataset with a length whose samples are pairs ``(x, y)``: a tensor, an
        array, a number or an image, and a label. ``torch.utils.data.random_split`` and ``Subset`` give such.
    test
        The same for test samples.
    regression
        Whether the label is a number to predict; otherwise the different labels of all clients are the classes.
    test_share, validation_share, stratify, seed
        As in ``from_frame``; test_share is for data without ``test``.

    Returns
    -------
    FederatedData
        ``x`` of the shape of a sample: float32, or whole numbers (tokens) as they are; images of bytes become numbers
        from 0 to 1. ``y``: int32, or float32 for a regression.

    Raises
    ------
    ValueError
        With the client whose samples are no pairs, or of another shape.

    Examples
    --------
    >>> import numpy as np, feddr
    >>> ann = [(np.ones(3, np.float32), 1), (np.zeros(3, np.float32), 0)]  # anything with a length and rows
    >>> data = feddr.FederatedData.from_torch({"ann": ann, "bob": ann[:1]})
    >>> data.clients, data.train.sizes.tolist(), data.train.samples["x"].shape
    (('ann', 'bob'), [2, 1], (3, 3))
    """
    names, train = _by_name("from_torch", datasets)
    pairs = [_pairs(f"client {name}", dataset) for name, dataset in zip(names, train, strict=True)]
    held: list[tuple[NDArray[Any], NDArray[Any]]] | None = None
    if test is not None:
        others, sets = _by_name("from_torch", test)
        if others != names:
            raise ValueError(f"test needs the clients of datasets, {names}, got {others}.")
        held = [_pairs(f"test client {name}", dataset) for name, dataset in zip(names, sets, strict=True)]
    return _assembled(
        cls,
        names if isinstance(datasets, Mapping) else (),
        pairs,
        held,
        regression,
        (),
        (test_share, validation_share, stratify, seed),
    )


def from_huggingface(
    cls: "type[FederatedData]",
    dataset: Any,
    x: str,
    y: str,
    *,
    client: str | None = None,
    test: Any = None,
    regression: bool = False,
    test_share: float = 0.0,
    validation_share: float = 0.0,
    stratify: bool = False,
    seed: int = 0,
) -> "FederatedData":
    """Build a federation from a Hugging Face Dataset with a column of owners, or from one Dataset for each client.

    The partitions of flwr-datasets are such: ``[fds.load_partition(i) for i in range(n)]``.

    Parameters
    ----------
    dataset
        A ``datasets.Dataset`` and the name of its ``client`` column; or Datasets by name of the client or in a list.
    x, y
        Names of the columns with the features (numbers, lists of numbers or images) and with the labels. For tables
        with a column for each feature, use ``from_frame(dataset.to_pandas(), ...)``.
    client
        Name of the column with the client of each row, where there is one Dataset.
    test
        The same as dataset, for test samples.
    regression, test_share, validation_share, stratify, seed
        As in ``from_torch``. The names of a ``ClassLabel`` are the classes.

    Raises
    ------
    ValueError
        With the column that is not there, or the client whose samples have another shape.

    Examples
    --------
    >>> import feddr
    >>> class Rows(dict):  # what is used of a Dataset
    ...     column_names = property(list)
    >>> rows = Rows(pixels=[[0.0, 1.0], [1.0, 1.0], [0.5, 0.0]], digit=[7, 3, 7], writer=["ann", "bob", "ann"])
    >>> data = feddr.FederatedData.from_huggingface(rows, x="pixels", y="digit", client="writer")
    >>> data.clients, data.classes, data.train.sizes.tolist()
    (('ann', 'bob'), (3, 7), [2, 1])
    """
    if client is None and hasattr(dataset, "column_names"):  # also a DatasetDict, whose parts are no clients
        raise ValueError(
            f"from_huggingface needs client, the column of owners, for a {type(dataset).__name__}; name it, or give a "
            "list of data sets, one for each client."
        )
    names, train = _owned(dataset, x, y, client)
    held = None
    if test is not None:
        owners, sets = _owned(test, x, y, client)
        strange = [name for name in owners if name not in names]
        if strange or (client is None and owners != names):
            raise ValueError(f"test needs the clients of the training data, {names}, got {owners}.")
        empty = (train[0][0][:0], train[0][1][:0])
        held = [sets[owners.index(name)] if name in owners else empty for name in names]
    first = dataset if client is not None else _by_name("from_huggingface", dataset)[1][0]
    known = getattr(getattr(first, "features", {}).get(y), "names", None) or ()
    shown = names if client is not None or isinstance(dataset, Mapping) else ()
    return _assembled(cls, shown, train, held, regression, known, (test_share, validation_share, stratify, seed))


def _assembled(
    cls: "type[FederatedData]",
    names: Sequence[str],
    train: Sequence[tuple[NDArray[Any], NDArray[Any]]],
    test: Sequence[tuple[NDArray[Any], NDArray[Any]]] | None,
    regression: bool,
    known: Sequence[Category],
    shares: tuple[float, float, bool, int],
) -> "FederatedData":
    """Return the federation of (features, labels) for each client; ``known`` are the names of labels 0, 1, ..."""
    test_share, validation_share, stratify, seed = shares
    if test is not None and test_share:
        raise ValueError(f"test_share is for data without test samples, got {test_share} and test; leave out one.")
    if regression and stratify:
        raise ValueError("stratify needs classes, got a regression; leave one of them out.")
    parts = [*train, *(test or ())]
    labels = [label_column("y", y) for _, y in parts]
    classes: tuple[Category, ...] = ()
    if not regression:
        for y in labels:
            check_classes("y", y)
        values: tuple[Category | None, ...] = tuple(range(len(known)))
        values = values or tuple(columns.levels(np.concatenate([y.astype(object) for y in labels])))
        if None in values:
            raise ValueError("y must have a label for every sample, some are missing; leave those samples out.")
        classes = tuple(known) or tuple(v for v in values if v is not None)
    clients = []
    for (x, _), y in zip(parts, labels, strict=True):
        if regression:
            clients.append({"x": x, "y": columns.numbers("y", y, "row {}".format).astype(np.float32)})
            continue
        codes = columns.codes(y, values).astype(np.int32)
        if np.any(codes < 0):
            raise ValueError(f"y must be from 0 to {len(values) - 1}, got {y[np.argmax(codes < 0)]}.")
        clients.append({"x": x, "y": codes})
    data = cls.from_clients(clients[: len(train)], clients[len(train) :] if test is not None else None)
    rows = np.split(np.arange(data.train.num_samples), data.train.offsets[1:-1])
    divided = split(rows, test_share, seed, validation_share, data.train.samples["y"] if stratify else None)
    federated = cls.from_rows(data.train.samples, divided, names, classes=classes)
    return federated if test is None else replace(federated, test=data.test)


def _by_name(who: str, datasets: Mapping[str, Any] | Sequence[Any]) -> tuple[list[str], list[Any]]:
    """Return the names of the clients, their numbers where they have none, and their data sets."""
    if isinstance(datasets, Mapping) and not hasattr(datasets, "column_names"):
        return list(map(str, datasets)), list(datasets.values())
    if not isinstance(datasets, list | tuple):
        raise ValueError(
            f"{who} needs a data set for each client, got a {type(datasets).__name__}; give a list of them."
        )
    return [str(i) for i in range(len(datasets))], list(datasets)


def _pairs(who: str, dataset: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return features and labels of all samples of a Dataset."""
    if not hasattr(dataset, "__len__") or not hasattr(dataset, "__getitem__"):
        raise ValueError(
            f"{who} needs a Dataset with a length and rows, got a {type(dataset).__name__}; make a list of it."
        )
    samples = [dataset[i] for i in range(len(dataset))]
    wrong = next((sample for sample in samples if not isinstance(sample, tuple | list) or len(sample) != 2), None)
    if wrong is not None or not samples:
        got = "none" if wrong is None else f"a {type(wrong).__name__}"
        raise ValueError(f"{who} needs samples (x, y), got {got}; choose two with a Dataset of your own.")
    return _stacked(who, [x for x, _ in samples]), _column([y for _, y in samples])


def _owned(
    dataset: Any, x: str, y: str, client: str | None
) -> tuple[list[str], list[tuple[NDArray[Any], NDArray[Any]]]]:
    """Return the names of the clients, and features and labels of each."""
    if client is None:
        names, sets = _by_name("from_huggingface without client", dataset)
        return names, [_read(f"client {name}", one, x, y) for name, one in zip(names, sets, strict=True)]
    features, labels = _read("the data set", dataset, x, y)
    owners = _column(_take("the data set", dataset, client))
    levels = columns.levels(owners)
    codes = columns.codes(owners, tuple(levels))
    return list(map(str, levels)), [(features[codes == i], labels[codes == i]) for i in range(len(levels))]


def _read(who: str, dataset: Any, x: str, y: str) -> tuple[NDArray[Any], NDArray[Any]]:
    rows = list(_take(who, dataset, x))
    if _element(getattr(dataset, "features", {}).get(x)) == "uint8":  # which may come as lists of whole numbers
        rows = [np.asarray(row, np.uint8) for row in rows]
    return _stacked(who, rows), _column(_take(who, dataset, y))


def _element(feature: Any) -> str:
    """Return the type of the numbers of a feature of Hugging Face, which may be a sequence of sequences."""
    while hasattr(feature, "feature"):
        feature = feature.feature
    return str(getattr(feature, "dtype", ""))


def _take(who: str, dataset: Any, name: str) -> Any:
    there = list(getattr(dataset, "column_names", ()))
    if name not in there:
        raise ValueError(
            f"{who} needs a column {name}, got a {type(dataset).__name__} with {', '.join(there) or 'none'}."
        )
    return dataset[name]


def _stacked(who: str, rows: Sequence[Any]) -> NDArray[Any]:
    """Return samples in one array; bytes with two axes or more are images, and become numbers from 0 to 1."""
    converted = [np.asarray(row) for row in rows]
    shapes = {row.shape for row in converted}
    if len(shapes) > 1:
        raise ValueError(f"Samples need one shape, {who} has {sorted(shapes)[:3]}; resize, pad or cut them.")
    x = np.stack(converted)
    if x.dtype == np.uint8 and x.ndim > 2:
        return arrays.pixels(f"x of {who}", x)
    numbers = arrays.samples(f"x of {who}", x)
    return numbers.astype(np.float32) if numbers.dtype.kind == "f" else numbers


def _column(values: Any) -> NDArray[Any]:
    """Return labels or names, each of which may be a tensor of one number."""
    return as_column([v.item() if hasattr(v, "item") and getattr(v, "ndim", 0) == 0 else v for v in values])
