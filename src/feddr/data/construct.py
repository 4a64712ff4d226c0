"""Federated data from a table with a column that names the client of each row, or from arrays.

The functions are methods of ``FederatedData``.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from feddr.data import split, tables
from feddr.data.partition import Indices
from feddr.data.split import Partition
from feddr.preparation import Category, Preparation, columns
from feddr.preparation.preparation import as_column
from feddr.validation import arrays

if TYPE_CHECKING:
    from feddr.data.federated import FederatedData


def from_frame(
    cls: "type[FederatedData]",
    frame: Any,
    client: str,
    label: str,
    numeric: Sequence[str] | None = None,
    categorical: Sequence[str] = (),
    *,
    sample_weight: str | None = None,
    ignore: Sequence[str] = (),
    regression: bool = False,
    standardise: bool = False,
    missing: Literal["refuse", "median"] = "refuse",
    reference: Literal["first", "none"] | Mapping[str, Category] = "none",
    unknown: Literal["refuse", "zeros"] = "refuse",
    test_share: float = 0.1,
    validation_share: float = 0.0,
    stratify: bool = False,
    seed: int = 0,
    preparation: Preparation | None = None,
) -> "FederatedData":
    """Build a federation from a table: each value of the client column is a client.

    Parameters
    ----------
    frame
        A pandas DataFrame with a row for each sample.
    client, label
        Names of the column that says whose a row is, and of the one to predict.
    numeric
        Columns with numbers; all that are not named otherwise by default.
    categorical
        Columns with one of a few values: each value of the table becomes a feature that is 0 or 1, ``column=value``.
    sample_weight
        A column of weights of the samples in the loss, not negative; see ``Problem.classification``.
    ignore
        Columns that are left out on purpose; of others that are not used there is a warning.
    regression
        Whether the label is a number to predict; otherwise its different values, in order, are the classes 0, 1, ...
    standardise
        Whether to centre and scale each feature by the training rows of all clients together.
    missing
        ``"refuse"`` missing values; or replace a missing number by the ``"median"`` of the training rows of all
        clients, with a feature ``column=missing`` that is 1 there (if any training row misses it), and make a missing
        category a category of its own.
    reference
        ``"first"``: the first category of each column has no feature, so that the coefficients of linear models are
        unique; or the category for each column by name; ``"none"``: every category has a feature.
    unknown
        What a category that is not in the table becomes later, when new rows are prepared: ``"refuse"`` it, or
        ``"zeros"`` in all features of its column.
    test_share, validation_share
        Of each client's rows; 0 for no such part.
    stratify
        Whether each part of a client has its labels in the same shares, up to rounding.
    seed
        Draws which rows are for what.
    preparation
        How to make features and labels, where that is already fixed, perhaps by several sites together; then the
        columns are its own, and ``numeric`` to ``unknown`` are left as they are.

    Returns
    -------
    FederatedData
        ``x``: float32, (rows, features), in the order numeric, categorical; ``y``: int32, or float32 for a regression;
        ``sample_weight``: float32 where there are weights. ``data.preparation`` prepares new rows alike.

    Raises
    ------
    ValueError
        With the row that has a missing or wrong value, or the column that is not there.

    Examples
    --------
    >>> import feddr, pandas as pd
    >>> rows = pd.DataFrame({"hospital": ["a", "a", "b"], "age": [61, 48, 70], "ill": ["yes", "no", "yes"]})
    >>> data = feddr.FederatedData.from_frame(rows, client="hospital", label="ill", test_share=0)
    >>> data.clients, data.features, data.classes, data.train.samples["y"].tolist()
    (('a', 'b'), ('age',), ('no', 'yes'), [1, 0, 1])
    """
    if not hasattr(frame, "columns"):
        raise ValueError(f"from_frame needs a DataFrame, got a {type(frame).__name__}; use from_arrays for arrays.")
    if len(frame) == 0:
        raise ValueError("A federation needs samples, the table has no rows.")
    if preparation is not None:
        changed = (numeric, tuple(categorical), regression, standardise, missing, reference, unknown)
        if changed != (None, (), False, False, "refuse", "none", "refuse"):
            raise ValueError("The preparation fixes the columns and what is done to them; leave out all but the label.")
        numeric, regression = preparation.names, not preparation.classes
        ignore = [name for name in frame.columns if name not in (client, label, sample_weight, *numeric)]
    roles = tables.check_roles(frame, client, label, numeric, categorical, sample_weight, ignore)
    if not regression:
        check_classes(label, as_column(frame[label]))
    names, rows = tables.by_client(frame, client)
    prepared = tables.prepare(
        frame,
        rows,
        roles,
        regression=regression,
        standardise=standardise,
        missing=missing,
        reference=reference,
        unknown=unknown,
        test_share=test_share,
        validation_share=validation_share,
        stratify=stratify,
        seed=seed,
        preparation=preparation,
    )
    return cls.from_rows(prepared.samples, prepared.rows, names, prepared.preparation)


def from_arrays(
    cls: "type[FederatedData]",
    X: ArrayLike,
    y: ArrayLike,
    clients: ArrayLike | None = None,
    *,
    partition: Partition | None = None,
    num_clients: int | None = None,
    features: Sequence[str] | None = None,
    sample_weight: ArrayLike | None = None,
    regression: bool = False,
    standardise: bool = False,
    missing: Literal["refuse", "median"] = "refuse",
    test_share: float = 0.1,
    validation_share: float = 0.0,
    stratify: bool = False,
    seed: int = 0,
    shards_per_client: int | None = None,
    labels_per_client: int | None = None,
    beta: float | None = None,
    sigma: float | None = None,
    min_samples: int | None = None,
) -> "FederatedData":
    """Build a federation from arrays, whose samples have owners, or are dealt out over clients.

    Parameters
    ----------
    X
        Features, (samples, features), or images, (samples, height, width) and more axes, which keep their shape.
        Images of bytes (uint8) become numbers from 0 to 1; features of bytes are refused, since nobody can know whether
        they are pixels.
    y
        Labels, (samples,): texts, whole numbers or truth values, whose different values in order are the classes; or
        numbers to predict in a ``regression``.
    clients
        Whose each sample is, (samples,): names or numbers.
    partition, num_clients, shards_per_client, labels_per_client, beta, sigma, min_samples
        In place of clients: how to deal the samples out, as in ``feddr.datasets.mnist``.
    features
        Names of the features; those of the columns of a DataFrame, or x0, x1, ... by default.
    sample_weight
        Weights of the samples in the loss, (samples,), not negative.
    regression, standardise, missing, test_share, validation_share, stratify, seed
        As in ``from_frame``; standardise and missing are for features, not for images.

    Raises
    ------
    ValueError
        Where lengths or shapes do not go together, or a value is not a number.

    Examples
    --------
    >>> import numpy as np, feddr
    >>> X, y = np.arange(8.0).reshape(4, 2), ["cat", "dog", "cat", "dog"]
    >>> data = feddr.FederatedData.from_arrays(X, y, clients=["ann", "ann", "bob", "bob"], test_share=0)
    >>> data.clients, data.classes, data.train.sizes.tolist()
    (('ann', 'bob'), ('cat', 'dog'), [2, 2])
    """
    x, label = np.asarray(X), label_column("y", y)
    lengths = {"X": len(x) if x.ndim else 0, "y": len(label)}
    lengths |= {
        name: len(np.asarray(values))
        for name, values in (("clients", clients), ("sample_weight", sample_weight))
        if values is not None
    }
    if x.ndim < 2 or len(x) == 0 or len(set(lengths.values())) != 1:
        raise ValueError(
            f"X needs shape (samples, features) and all arrays one row a sample, got X of shape {x.shape} and lengths "
            f"{lengths}; a single feature is X[:, None]."
        )
    if not regression:
        check_classes("y", label)
    options = split.options_of(shards_per_client, labels_per_client, beta, sigma, min_samples)
    names, rows = _owners(label, regression, clients, partition, num_clients, seed, options)
    columns_of_x = _feature_names(X, x.shape, features)
    label_name, weight_name = _unused("y", columns_of_x), _unused(tables.WEIGHT, columns_of_x)
    table: dict[str, Any] = {label_name: label}
    if sample_weight is not None:
        table[weight_name] = np.asarray(sample_weight)
    if x.ndim == 2:
        table |= dict(zip(columns_of_x, arrays.samples("X", x).T, strict=True))
    elif standardise or missing != "refuse":
        raise ValueError(f"standardise and missing are for X of 2 axes, got shape {x.shape}; leave them out.")
    roles = tables.ColumnRoles(label_name, columns_of_x, (), weight_name if sample_weight is not None else None)
    prepared = tables.prepare(
        table,
        rows,
        roles,
        regression=regression,
        standardise=standardise,
        missing=missing,
        test_share=test_share,
        validation_share=validation_share,
        stratify=stratify,
        seed=seed,
    )
    if x.ndim == 2:
        return cls.from_rows(prepared.samples, prepared.rows, names, prepared.preparation)
    return cls.from_rows(
        prepared.samples | {"x": arrays.pixels("X", x)}, prepared.rows, names, classes=prepared.classes
    )


def label_column(name: str, y: ArrayLike) -> NDArray[Any]:
    """Return labels as a column, and refuse those of another shape."""
    shape = np.shape(y)
    if len(shape) != 1:
        remedy = f"use {name}[:, 0] or {name}.ravel()" if len(shape) == 2 and shape[1] == 1 else "number the classes"
        raise ValueError(f"{name} needs one label a sample, shape (samples,), got shape {shape}; {remedy}.")
    return as_column(y)


def check_classes(name: str, labels: NDArray[Any]) -> None:
    """Refuse numbers with fractions as classes."""
    wrong = [v for v in labels.tolist() if isinstance(v, float) and v == v and not v.is_integer()]
    if wrong:
        raise ValueError(
            f"{name} must hold classes: texts, whole numbers or truth values, got {wrong[0]:g}; use regression=True "
            "for numbers to predict."
        )


def _owners(
    labels: NDArray[Any],
    regression: bool,
    clients: ArrayLike | None,
    partition: Partition | None,
    num_clients: int | None,
    seed: int,
    options: dict[str, Any],
) -> tuple[tuple[str, ...], list[Indices]]:
    """Return the names of the clients, if they have any, and the rows of each."""
    if (clients is None) == (partition is None):
        got = "neither" if clients is None else "both"
        raise ValueError(
            f'Samples need owners: clients, a name for each, or a partition such as "iid", got {got}; give one of them.'
        )
    if partition is not None:
        codes = labels if regression else columns.distinct(labels)[1]
        return (), split.assign(codes, partition, 10 if num_clients is None else num_clients, seed, options)
    if options or num_clients is not None:
        unused = ", ".join([*options, *(["num_clients"] if num_clients is not None else [])])
        raise ValueError(f"{unused} must go with a partition, got clients for the samples; leave out one of them.")
    return tables.by_client({"clients": clients}, "clients")


def _feature_names(X: Any, shape: tuple[int, ...], features: Sequence[str] | None) -> tuple[str, ...]:
    if len(shape) > 2:
        if features is not None:
            raise ValueError(f"features are names of the columns of X, which has shape {shape}; leave them out.")
        return ()
    if features is None:
        features = list(map(str, getattr(X, "columns", [f"x{j}" for j in range(shape[1])])))
    if len(features) != shape[1]:
        raise ValueError(f"features needs a name for each of {shape[1]} columns of X, got {len(features)}.")
    return tuple(features)


def _unused(name: str, names: Sequence[str]) -> str:
    return name if name not in names else _unused(f"{name}_", names)
