"""MNIST: 70,000 digits, dealt out by label or at random, or as they were written: by 539 writers.

References
----------
Y. LeCun, L. Bottou, Y. Bengio, P. Haffner (1998). Gradient-based learning applied to document recognition. Proceedings
of the IEEE 86(11).
C. Yadav, L. Bottou (2019). Cold case: the lost MNIST digits. NeurIPS. (Who wrote which digit.)
"""

from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from feddr.data import FederatedData
from feddr.data import partition as partitions
from feddr.data.partition import Indices
from feddr.data.split import OPTIONS, Shares, assign, check_options, options_of
from feddr.datasets.download import Remote, find, folder, obtain
from feddr.datasets.federate import Array, check_labels, draw, federate, gather
from feddr.datasets.idx import read_idx
from feddr.datasets.npz import read_npz

WITH_WRITERS = "mnist_writers.npz"
WRITERS = "qmnist-train-labels-idx2-int.gz"
_MIRRORS = ("https://ossci-datasets.s3.amazonaws.com/mnist/", "https://storage.googleapis.com/cvdf-datasets/mnist/")
FILES = {
    "train-images-idx3-ubyte.gz": Remote(_MIRRORS, "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"),
    "train-labels-idx1-ubyte.gz": Remote(_MIRRORS, "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"),
    "t10k-images-idx3-ubyte.gz": Remote(_MIRRORS, "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"),
    "t10k-labels-idx1-ubyte.gz": Remote(_MIRRORS, "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"),
    WRITERS: Remote(
        ("https://raw.githubusercontent.com/facebookresearch/qmnist/master/",),
        "0058f8dd561b90ffdd0f734c6a30e5e4",
        "md5",
    ),
}
"""What is downloaded when it is missing, from where, and with which checksum."""

DEFAULT_CLIENTS = 20
CLASSES = tuple("0123456789")


class Digits(NamedTuple):
    """Images of 28 x 28 bytes, their labels and, where they are known, their writers."""

    images: Array
    labels: Array
    writers: Array | None = None


def mnist(
    partition: Literal["iid", "shards", "dirichlet", "quantity", "few_labels", "writer"] = "iid",
    num_clients: int | None = None,
    data_dir: str | None = None,
    seed: int = 0,
    test: Literal["own", "official"] = "own",
    test_share: float = 0.1,
    shards_per_client: int | None = None,
    labels_per_client: int | None = None,
    beta: float | None = None,
    sigma: float | None = None,
    min_samples: int | None = None,
    validation_share: float = 0.0,
    stratify: bool = False,
) -> FederatedData:
    """Return the digits of MNIST as a federation.

    Parameters
    ----------
    partition
        How the 60,000 training digits are dealt out: ``"writer"``, each writer is a client (through the labels of
        QMNIST), or a function of :mod:`feddr.datasets.partition`: ``"iid"``, ``"shards"``, ``"dirichlet"``,
        ``"quantity"``, ``"few_labels"``, which leaves digits over.
    num_clients
        Number of clients, 20 by default. With ``"writer"`` so many writers drawn at random, all 539 by default.
    data_dir
        A folder with the idx files, compressed or not, or with ``mnist_writers.npz`` (X, y, writer, is_test). By
        default they are looked for, and downloaded to, ``mnist`` in the folder for data (``docs/DATA.md``).
    seed
        Draws the partition, and which samples are for what.
    test
        ``"own"``: a part of each client's own digits; ``"official"``: the 10,000 test digits, which are by other
        writers, dealt out at random, so that the pooled test accuracy is the one that people quote.
    test_share
        Of each client's digits, for ``test="own"``; 0 for no test part.
    shards_per_client, labels_per_client, beta, sigma, min_samples
        For the partitions that have them: 2, 3, 0.5, 1.0 and 1 by default.
    validation_share
        Of each client's digits, of those for training with ``test="official"``; 0 for no validation part.
    stratify
        Whether each part of a client has its labels in the same shares, up to rounding.

    Returns
    -------
    FederatedData
        ``x``: float32, (samples, 784), from 0 to 1; ``y``: int32, from 0 to 9.

    Examples
    --------
    >>> data = mnist("writer", data_dir="~/data/mnist")  # doctest: +SKIP
    >>> data.num_clients  # doctest: +SKIP
    539
    """
    source, download = folder("mnist", data_dir), data_dir is None
    digits = _load(source, download, "train", writers=partition == "writer")
    options = options_of(shards_per_client, labels_per_client, beta, sigma, min_samples)
    names: list[str] = []
    if partition == "writer":
        assert digits.writers is not None
        check_options(partition, options)
        clients, names = _by_writer(digits.writers, num_clients, seed)
    elif partition in OPTIONS:
        clients = assign(
            digits.labels, partition, DEFAULT_CLIENTS if num_clients is None else num_clients, seed, options
        )
    else:
        raise ValueError(f"partition must be one of {', '.join([*OPTIONS, 'writer'])}, got {partition!r}.")
    if test == "own":
        shares = Shares(test_share, validation_share, stratify, seed)
        return federate(digits.images, digits.labels, clients, shares, classes=CLASSES, names=names)
    if test != "official":
        raise ValueError(f'test must be "own" or "official", got {test!r}.')
    held = _load(source, download, "t10k", writers=False)
    whole = FederatedData(
        gather(digits.images, digits.labels, clients),
        gather(held.images, held.labels, partitions.iid(held.labels, len(clients), seed)),
        classes=CLASSES,
        clients=tuple(names),
    )
    return whole.with_validation(validation_share, stratify, seed)


def _by_writer(writers: Array, num_clients: int | None, seed: int) -> tuple[list[Indices], list[str]]:
    names, clients = np.unique(writers), partitions.by_column(writers)
    chosen = draw(len(names), num_clients, seed, "writers")
    return [clients[i] for i in chosen], [f"writer {names[i]}" for i in chosen]


def _load(source: Path, download: bool, half: str, writers: bool) -> Digits:
    """Read the training half, "train", or the official test half, "t10k"."""
    archive = find(source, [WITH_WRITERS])
    if archive is not None:
        return _from_npz(archive, half == "t10k")
    names = [f"{half}-images-idx3-ubyte.gz", f"{half}-labels-idx1-ubyte.gz", *([WRITERS] if writers else [])]
    paths = obtain(source, {name: _variants(name) for name in names}, FILES if download else None)
    images_path, labels_path = paths[:2]
    images = read_idx(images_path, 8, (None, 28, 28))
    labels = read_idx(labels_path, 8, (len(images),))
    check_labels(labels_path, labels, 10)
    if not writers:
        return Digits(images, labels)
    extended = read_idx(paths[2], 12, (len(images), 8))
    differ = np.flatnonzero(extended[:, 0] != labels)
    if len(differ):
        raise ValueError(
            f"{paths[2]}: column 0 must be the label, sample {differ[0]} has {extended[differ[0], 0]} here and "
            f"{labels[differ[0]]} in {labels_path.name}; the two files do not belong together."
        )
    return Digits(images, labels, extended[:, 2])


def _variants(name: str) -> list[str]:
    """Return the other names under which people keep a file: unpacked, or with a dot."""
    plain = name.removesuffix(".gz")
    dotted = plain.replace("-idx", ".idx")
    return [plain, f"{dotted}.gz", dotted]


def _from_npz(path: Path, official_test: bool) -> Digits:
    arrays = read_npz(path, ["X", "y", "writer", "is_test"])
    images, labels, writers, is_test = arrays.values()
    shapes = {name: array.shape for name, array in arrays.items()}
    if images.shape[1:] != (28, 28) or any(shape != images.shape[:1] for shape in list(shapes.values())[1:]):
        raise ValueError(f"{path}: needs X of shape (n, 28, 28) and y, writer, is_test of length n, it has {shapes}.")
    if images.dtype != np.uint8:
        raise ValueError(f"{path}: X must hold bytes, it holds {images.dtype}.")
    check_labels(path, labels, 10)
    rows = is_test.astype(bool) == official_test
    if not rows.any():
        raise ValueError(f"{path}: has no {'test' if official_test else 'training'} digits, by its is_test.")
    return Digits(images[rows], labels[rows], writers[rows])
