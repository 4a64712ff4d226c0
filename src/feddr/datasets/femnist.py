"""FEMNIST: handwritten characters of NIST, 62 classes by writer, or the 26-class layout of the FedProx experiments.

References
----------
S. Caldas et al. (2018). LEAF: a benchmark for federated settings. arXiv:1812.01097.
T. Li, A. K. Sahu, M. Zaheer, M. Sanjabi, A. Talwalkar, V. Smith (2020). Federated optimization in heterogeneous
networks. MLSys.
G. Cohen, S. Afshar, J. Tapson, A. van Schaik (2017). EMNIST: extending MNIST to handwritten letters. IJCNN.
"""

import string
from numbers import Integral
from pathlib import Path
from typing import Literal

import numpy as np

from feddr.data import FederatedData
from feddr.data.partition import Indices
from feddr.data.split import Shares
from feddr.datasets.download import find, folder
from feddr.datasets.federate import Array, check_labels, gather
from feddr.datasets.idx import read_idx
from feddr.datasets.leaf import Users, combine, read_halves
from feddr.datasets.npz import read_npz
from feddr.storage import limits

CLASSES = string.digits + string.ascii_uppercase + string.ascii_lowercase
FIRST_LETTER = CLASSES.index("a")
NUM_LETTERS, LETTERS_PER_USER, MOST_OF_A_LETTER = 10, 3, 4000
DEFAULT_USERS = 200
IDX = "emnist-byclass-train"


def femnist(
    data_dir: str | None = None,
    layout: Literal["leaf", "fedprox"] = "leaf",
    num_clients: int | None = None,
    test_share: float = 0.1,
    seed: int = 0,
    validation_share: float = 0.0,
    stratify: bool = False,
) -> FederatedData:
    """Return FEMNIST as a federation.

    Parameters
    ----------
    data_dir
        A folder with LEAF's folders ``train`` and ``test`` (its ``preprocess.sh -s niid -t sample`` makes them); by
        default ``femnist`` in the folder for data (``docs/DATA.md``). There is nothing to download. For
        ``layout="fedprox"`` without such folders: one with samples of EMNIST by class, ``emnist*.npz`` (X upright, y
        from 0 to 61) or ``emnist-byclass-train-images-idx3-ubyte.gz`` and its labels.
    layout
        ``"leaf"``: a client is a writer, 62 classes. ``"fedprox"``: 26 classes of which a to j occur, 3 for each of 200
        artificial users with lognormal(4, 1) + 5 samples, a tenth of them for testing.
    num_clients
        So many writers drawn at random, all by default; with samples of EMNIST the number of users, 200 by default.
    test_share
        Of each writer's samples, where there is no folder ``test``.
    seed
        Draws the writers, or the users and their samples.
    validation_share
        Of each writer's samples, of those for training where the test part is given; 0 for no validation part.
    stratify
        Whether each part of a writer has its labels in the same shares, up to rounding.

    Returns
    -------
    FederatedData
        ``x``: float32, (samples, 784), from 0 to 1; ``y``: int32. LEAF's images have white paper (1) and black ink (0),
        those of EMNIST the reverse.

    Notes
    -----
    The script behind the published 26-class set starts at the first image of a letter again for nearly every user, so
    that users share images, and one's test images are another's training images. Here users walk through each letter's
    images in turn and begin again only when all are used, and a tenth of the images is for testing alone. An image
    that is used twice may be one user's validation image and another's training image.

    Examples
    --------
    >>> data = femnist("~/data/femnist", num_clients=50)  # doctest: +SKIP
    """
    source = folder("femnist", data_dir)
    if layout not in ("leaf", "fedprox"):
        raise ValueError(f'layout must be "leaf" or "fedprox", got {layout!r}.')
    if (source / "train").is_dir():
        letters = CLASSES if layout == "leaf" else string.ascii_lowercase
        train, test = read_halves(source)
        scale = max(_largest(half, len(letters), source) for half in (train, test or {}))
        data = combine(train, test, num_clients, Shares(test_share, validation_share, stratify, seed), tuple(letters))
        for part in (data.train, data.validation, data.test):
            if scale > 1 and part is not None:
                np.divide(part.samples["x"], np.float32(255), out=part.samples["x"])
        return data
    if layout == "fedprox":
        images, labels = _letters(source)
        users = _fedprox(images, labels, DEFAULT_USERS if num_clients is None else num_clients, seed)
        return users.with_validation(validation_share, stratify, seed)
    raise ValueError(
        f"femnist needs LEAF's folders train and test in {source}, which cannot be downloaded; make them with its "
        "data/femnist/preprocess.sh -s niid --sf 0.05 -t sample and put them there, or give data_dir."
    )


def _largest(users: Users, num_classes: int, source: Path) -> float:
    """Check the samples of all users and return the largest pixel, which is 1 or, in some files, 255."""
    largest = 0.0
    for name, user in users.items():
        check_labels(f"{source}, user {name}", user.y, num_classes)
        if len(user.y) and (user.x.shape[1] != 784 or user.x.min() < 0 or user.x.max() > 255):
            raise ValueError(
                f"{source}: femnist has 784 pixels from 0 to 1 or to 255, user {name} has {user.x.shape[1]} from "
                f"{user.x.min():g} to {user.x.max():g}; use leaf for other data."
            )
        largest = max(largest, float(user.x.max(initial=0)))
    return largest


def _letters(folder: Path) -> tuple[Array, Array]:
    """Return the images of a to j, and labels 0 to 9."""
    archive = find(folder, sorted(path.name for path in folder.glob("emnist*.npz")))
    images_path = find(folder, [f"{IDX}-images-idx3-ubyte{end}" for end in (".gz", "")])
    labels_path = find(folder, [f"{IDX}-labels-idx1-ubyte{end}" for end in (".gz", "")])
    if archive is not None:
        images, labels = read_npz(archive, ["X", "y"]).values()
        if images.dtype != np.uint8 or images.shape[1:] != (28, 28) or labels.shape != images.shape[:1]:
            raise ValueError(
                f"{archive}: needs X, bytes of shape (n, 28, 28), and n labels y, it has X of {images.dtype} and shape "
                f"{images.shape}, and y of shape {labels.shape}."
            )
        source = archive
    elif images_path is not None and labels_path is not None:
        # The idx files of EMNIST hold columns where those of MNIST hold rows.
        images = read_idx(images_path, 8, (None, 28, 28)).swapaxes(1, 2)
        labels, source = read_idx(labels_path, 8, (len(images),)), labels_path
    else:
        raise ValueError(
            f"femnist in the fedprox layout needs, in {folder}, LEAF's folders train and test, or emnist*.npz, or "
            f"{IDX}-images-idx3-ubyte.gz and {IDX}-labels-idx1-ubyte.gz; put one of them there, or give data_dir."
        )
    check_labels(source, labels, len(CLASSES))
    letters = labels.astype(np.int64) - FIRST_LETTER
    wanted = (letters >= 0) & (letters < NUM_LETTERS)
    counts = np.bincount(letters[wanted], minlength=NUM_LETTERS)
    if counts.min() < 2:
        rare = string.ascii_lowercase[int(counts.argmin())]
        raise ValueError(f"{source}: each letter from a to j needs 2 images or more, {rare} has {counts.min()}.")
    return images[wanted], letters[wanted]


def _fedprox(images: Array, labels: Array, num_users: int, seed: int) -> FederatedData:
    """Deal the images out: user i has the letters i, i + 1 and i + 2, counted around from j to a."""
    for what, value, least in (("num_clients", num_users, 1), ("seed", seed, 0)):
        if not isinstance(value, Integral) or value < least:
            raise ValueError(f"{what} must be a whole number >= {least}, got {value}.")
    # A user has 5 + exp(4.5) images on average.
    limits.check_memory(f"A federation of {num_users} users", int(num_users) * 95 * 4 * 785, "take fewer")
    # 64 sets this stream apart from those that others derive from the same seed.
    rng = np.random.default_rng(np.random.SeedSequence(int(seed), spawn_key=(64,)))
    pools: list[dict[bool, Indices]] = []
    for letter in range(NUM_LETTERS):
        rows = rng.permutation(np.flatnonzero(labels == letter))[:MOST_OF_A_LETTER]
        held = max(1, len(rows) // 10)
        pools.append({True: rows[:held], False: rows[held:]})
    next_of = {(letter, held): 0 for letter in range(NUM_LETTERS) for held in (True, False)}
    halves: dict[bool, list[Indices]] = {True: [], False: []}
    for user, size in enumerate(rng.lognormal(4, 1, num_users) + 5):
        each = max(2, int(size / LETTERS_PER_USER))
        total = LETTERS_PER_USER * each
        held_out = rng.permutation(np.arange(total) >= 9 * total // 10)
        taken: dict[bool, list[int]] = {True: [], False: []}
        for slot, held in enumerate(held_out.tolist()):
            letter = (user + slot // each) % NUM_LETTERS
            pool, position = pools[letter][held], next_of[letter, held]
            taken[held].append(int(pool[position % len(pool)]))
            next_of[letter, held] += 1
        for held, rows_taken in taken.items():
            halves[held].append(rng.permutation(np.array(rows_taken, np.int64)))
    train, test = (gather(images, labels, halves[held]) for held in (False, True))
    names = tuple(f"f_{i:05d}" for i in range(num_users))
    return FederatedData(train, test, classes=tuple(string.ascii_lowercase), clients=names)
