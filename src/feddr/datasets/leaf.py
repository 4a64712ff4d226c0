"""Files in the format of LEAF: JSON with ``users``, ``num_samples`` and ``user_data``.

References
----------
S. Caldas, S. M. K. Duddu, P. Wu, T. Li, J. Konečný, H. B. McMahan, V. Smith, A. Talwalkar (2018). LEAF: a benchmark for
federated settings. arXiv:1812.01097.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from feddr.data import ClientSamples, FederatedData
from feddr.data.split import Shares
from feddr.datasets import files
from feddr.datasets.federate import Array, draw, federate

SUFFIXES = (".json", ".json.gz")
SPLIT = "make both halves with LEAF's -t sample, or take the test folder away and a part of each user is split off"


@dataclass(frozen=True)
class User:
    """The samples of a user, one row of float32 each, and their labels; or what is wrong with them."""

    x: NDArray[np.float32]
    y: NDArray[np.float64]
    wrong: str = ""


Users = dict[str, User]


def leaf(
    path: str,
    num_clients: int | None = None,
    test_share: float = 0.1,
    seed: int = 0,
    validation_share: float = 0.0,
    stratify: bool = False,
) -> FederatedData:
    """Return the users of LEAF files as a federation.

    Parameters
    ----------
    path
        A file ``.json`` or ``.json.gz``, a folder of them, or a folder with the folders ``train`` and ``test``, which
        must have the same users. Features and labels are numbers; whole labels are classes.
    num_clients
        So many users drawn at random, all by default.
    test_share
        Of each user's samples, where there is no folder ``test``; 0 for no test part.
    seed
        Draws the users, and which samples are for what.
    validation_share
        Of each user's samples, of those in ``train`` where there are both folders; 0 for no validation part.
    stratify
        Whether each part of a user has its labels in the same shares, up to rounding.

    Returns
    -------
    FederatedData
        ``x``: float32, (samples, features); ``y``: int32 where all labels are whole numbers, else float32.

    Raises
    ------
    ValueError
        With the file that is not there or not in LEAF's format.

    Examples
    --------
    >>> import json, pathlib, tempfile
    >>> content = {"users": ["ann"], "num_samples": [2], "user_data": {"ann": {"x": [[0.5], [1.5]], "y": [0, 1]}}}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "users.json")
    ...     _ = file.write_text(json.dumps(content))
    ...     data = leaf(str(file), test_share=0)
    >>> data.num_clients, data.train.samples["x"].tolist()
    (1, [[0.5], [1.5]])
    """
    shares = Shares(test_share, validation_share, stratify, seed)
    return combine(*read_halves(Path(path).expanduser()), num_clients, shares)


def read_halves(source: Path) -> tuple[Users, Users | None]:
    """Return the users for training and, where there is a folder for them, the same users for testing."""
    if not (source / "train").is_dir():
        return read_users(source), None
    train = read_users(source / "train")
    if not (source / "test").is_dir():
        return train, None
    test = read_users(source / "test", may_be_empty=True)
    for one, other, here, there in ((train, test, "train", "test"), (test, train, "test", "train")):
        alone = [user for user in one if user not in other]
        if alone:
            raise ValueError(
                f"{source}: train and test must have the same users, {len(alone)} of {here} ({alone[0]} for one) are "
                f"not in {there}; {SPLIT}."
            )
    return train, test


def read_users(source: Path, may_be_empty: bool = False) -> Users:
    """Return the users of a file, or of all files of a folder."""
    paths = [source]
    if source.is_dir():
        paths = sorted(path for path in source.iterdir() if path.name.endswith(SUFFIXES))
        if not paths:
            raise ValueError(f"{source}: needs files ending in {' or '.join(SUFFIXES)}, it has none.")
    users: Users = {}
    for path in paths:
        for name, user in _read(path).items():
            if name in users:
                raise ValueError(f"{path}: user {name} was in another file already; a user has one entry.")
            if len(user.y) == 0 and not may_be_empty:
                raise ValueError(f"{path}: user {name} has no samples; remove it (LEAF's -k 1 does).")
            users[name] = user
    _check_width(source, users)
    return users


def combine(
    train: Users,
    test: Users | None,
    num_clients: int | None,
    shares: Shares,
    classes: Sequence[str] = (),
) -> FederatedData:
    """Return the federation of some users, or of all."""
    users = list(train)
    names = [users[i] for i in draw(len(users), num_clients, shares.seed, "users")]
    part = _part([train[name] for name in names])
    if test is None:
        rows = np.arange(part.num_samples)
        clients = np.split(rows, part.offsets[1:-1])
        x, y = part.samples["x"], part.samples["y"]
        return federate(x, y, clients, shares, classes=classes, names=names)
    width = part.samples["x"].shape[1]
    held = _part([test[name] for name in names], width)
    if held.samples["y"].dtype != part.samples["y"].dtype and held.num_samples:
        raise ValueError("The labels of train and test must both be classes or both be numbers, one has fractions.")
    whole = FederatedData(part, held, classes=tuple(classes), clients=tuple(names))
    return whole.with_validation(shares.validation, shares.stratify, shares.seed)


def _part(users: Sequence[User], width: int | None = None) -> ClientSamples:
    offsets = np.concatenate([[0], np.cumsum([len(user.y) for user in users])]).astype(np.int64)
    filled = [user for user in users if len(user.y)]
    if not filled:
        return ClientSamples({"x": np.empty((0, width or 0), np.float32), "y": np.empty(0, np.int32)}, offsets)
    y = np.concatenate([user.y for user in filled])
    labels: Array = y.astype(np.int32 if np.all(y == np.floor(y)) and np.all(np.abs(y) < 2**31) else np.float32)
    x = np.concatenate([user.x for user in filled])
    if width is not None and x.shape[1] != width:
        raise ValueError(f"Samples of train and test need one width, got {width} and {x.shape[1]} features.")
    return ClientSamples({"x": x, "y": labels}, offsets)


def _read(path: Path) -> Users:
    # Each user's lists become arrays as soon as they are complete, so that not all numbers are Python objects at once.
    try:
        content = json.loads(files.decode(path, files.read(path)), object_pairs_hook=_table, parse_constant=_refuse)
    except RecursionError:
        raise ValueError(f"{path}: nested too deeply for a file of LEAF.") from None
    except _RefusedError as error:
        raise ValueError(f"{path}: {error}.") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"{path}: not JSON, {error}; it may be cut short, fetch it again.") from None
    if not isinstance(content, dict) or not {"users", "num_samples", "user_data"} <= set(content):
        raise ValueError(f"{path}: a file of LEAF has users, num_samples and user_data, this one has not.")
    names, sizes, data = content["users"], content["num_samples"], content["user_data"]
    if not (isinstance(names, list) and isinstance(sizes, list) and isinstance(data, Mapping)):
        raise ValueError(f"{path}: users and num_samples must be lists, and user_data a table.")
    if sorted(map(str, names)) != sorted(data) or len(names) != len(sizes):
        raise ValueError(
            f"{path}: users, num_samples and user_data must be of the same users, they have {len(names)}, "
            f"{len(sizes)} and {len(data)}; the file is damaged."
        )
    users = {str(name): _user(path, str(name), data[str(name)]) for name in names}
    for name, size, user in zip(names, sizes, users.values(), strict=True):
        if size != len(user.y):
            raise ValueError(f"{path}: user {name} has {len(user.y)} samples, num_samples says {size}; it is damaged.")
    return users


def _user(path: Path, name: str, user: Any) -> User:
    if not isinstance(user, User):
        raise ValueError(f"{path}: user {name} needs lists x and y.")
    if user.wrong:
        raise ValueError(f"{path}: user {name} {user.wrong}.")
    return user


def _table(pairs: list[tuple[str, Any]]) -> Any:
    """Return a JSON object as a table, and the samples of a user as arrays."""
    table = dict(pairs)
    if len(table) != len(pairs):
        twice = next(key for i, (key, _) in enumerate(pairs) if key in dict(pairs[:i]))
        raise _RefusedError(f"{twice} stands twice in one table")
    if isinstance(table.get("x"), list) and isinstance(table.get("y"), list):
        return _arrays(table["x"], table["y"])
    return table


def _arrays(rows: list[Any], labels: list[Any]) -> User:
    nothing = np.empty((0, 0), np.float32), np.empty(0)
    if any(isinstance(entry, str) for entry in (*rows[:1], *labels[:1])):
        return User(*nothing, wrong="has text; features and labels must be numbers")
    try:
        with np.errstate(over="ignore"):
            x, y = np.array(rows, np.float32), np.array(labels, np.float64)
    except (TypeError, ValueError, OverflowError):
        lengths = sorted({len(row) for row in rows if isinstance(row, list)})
        uneven = f": its rows have from {lengths[0]} to {lengths[-1]}" if len(lengths) > 1 else ""
        return User(*nothing, wrong=f"needs samples of one width with numbers only{uneven}")
    if y.ndim != 1 or len(x) != len(y):
        return User(*nothing, wrong=f"needs one label for each sample, got {len(x)} samples and y of shape {y.shape}")
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        return User(*nothing, wrong="has a number that is not finite, or nothing in place of a number")
    return User(x.reshape(len(x), -1) if len(x) else nothing[0], y)


def _check_width(source: Path, users: Users) -> None:
    widths = {name: user.x.shape[1] for name, user in users.items() if len(user.y)}
    first = next(iter(widths.items()), ("", 0))
    for name, width in widths.items():
        if width != first[1]:
            raise ValueError(
                f"{source}: samples of all users need one width, user {name} has {width} features and user {first[0]} "
                f"has {first[1]}."
            )


def _refuse(constant: str) -> None:
    raise _RefusedError(f"{constant} is not a number; features and labels must be finite")


class _RefusedError(Exception):
    """JSON that no file of LEAF may have."""
