"""Partitions: which samples go to which client.

Pure functions from labels to one array of sample numbers for each client. Every sample goes to exactly one client
(``few_labels`` leaves some over), the seed decides everything, and no client is left without samples unless
``min_samples=0`` asks for it.

References
----------
B. McMahan, E. Moore, D. Ramage, S. Hampson, B. Agüera y Arcas (2017). Communication-efficient learning of deep networks
from decentralized data. AISTATS. (Shards.)
T.-M. H. Hsu, H. Qi, M. Brown (2019). Measuring the effects of non-identical data distribution for federated visual
classification. arXiv:1909.06335. (Dirichlet.)
T. Li, A. K. Sahu, M. Zaheer, M. Sanjabi, A. Talwalkar, V. Smith (2020). Federated optimization in heterogeneous
networks. MLSys. (Few labels, in the scripts of its authors.)
"""

import math
from numbers import Integral

import numpy as np
from numpy.typing import ArrayLike, NDArray

Indices = NDArray[np.int64]
MAX_CLASSES = 10_000
LOG_SIZE, LEAST = 4.0, 5


def iid(labels: ArrayLike, num_clients: int, seed: int = 0) -> list[Indices]:
    """Deal the samples out at random; the sizes of clients differ by one at most.

    Parameters
    ----------
    labels
        One for each sample; only their number counts here.
    num_clients
        Number of clients, at most one for each sample.
    seed
        Draws the partition.

    Examples
    --------
    >>> [part.tolist() for part in iid([0, 0, 1, 1, 1], num_clients=2, seed=1)]
    [[1, 4, 0], [3, 2]]
    """
    size = _size(labels, num_clients, 1)
    return np.array_split(_generator(seed).permutation(size), num_clients)


def shards(labels: ArrayLike, num_clients: int, shards_per_client: int = 2, seed: int = 0) -> list[Indices]:
    """Sort the samples by label, cut them into shards of one size and deal these out: few labels for each client.

    Parameters
    ----------
    labels, num_clients, seed
        As in ``iid``. Samples of one label are sorted at random.
    shards_per_client
        How many shards a client gets; a client sees about as many labels.
    """
    if not isinstance(shards_per_client, Integral) or shards_per_client < 1:
        raise ValueError(f"shards_per_client must be a whole number >= 1, got {shards_per_client}.")
    size, total = _size(labels, num_clients, shards_per_client), num_clients * int(shards_per_client)
    rng, values = _generator(seed), np.asarray(labels)
    mixed = rng.permutation(size)
    pieces = np.array_split(mixed[np.argsort(values[mixed], kind="stable")], total)
    hands = rng.permutation(total).reshape(num_clients, shards_per_client)
    return [np.sort(np.concatenate([pieces[shard] for shard in hand])) for hand in hands]


def few_labels(
    labels: ArrayLike, num_clients: int, labels_per_client: int = 3, sigma: float = 1.0, seed: int = 0
) -> list[Indices]:
    """Give client i the labels i, i + 1, ..., counted around, and lognormal(4, sigma) + 5 samples, as many of each.

    The sizes are those of the script with which FEMNIST's federation of the FedProx and FedDR experiments was made,
    and do not depend on how many samples there are: those that nobody needs are left over.

    Parameters
    ----------
    labels, num_clients, seed
        As in ``iid``; the labels are classes. Each sample goes to one client at most.
    labels_per_client
        How many labels a client has.
    sigma
        Spread of the logarithm of a client's size; 0 for equal sizes.

    Examples
    --------
    >>> labels = [0, 1, 2, 3] * 100
    >>> [sorted({labels[row] for row in part}) for part in few_labels(labels, 3, labels_per_client=2, sigma=0.0)]
    [[0, 1], [1, 2], [2, 3]]
    """
    size, values = _size(labels, num_clients, 1), np.asarray(labels)
    classes, codes = np.unique(values, return_inverse=True)
    if not isinstance(labels_per_client, Integral) or not 1 <= labels_per_client <= len(classes):
        raise ValueError(
            f"labels_per_client must be a whole number from 1 to the number of labels, {len(classes)}, got "
            f"{labels_per_client}."
        )
    if not 0 <= sigma < math.inf:
        raise ValueError(f"few_labels needs sigma >= 0, got {sigma}; 0 gives equal sizes.")
    rng, count = _generator(seed), int(labels_per_client)
    pools = [rng.permutation(np.flatnonzero(codes == c)) for c in range(len(classes))]
    # Sizes of which nobody could have so many are cut before they overflow, and refused below.
    logs = np.minimum(LOG_SIZE + sigma * rng.standard_normal(num_clients), math.log(size) + 5)
    each = np.maximum(1, ((np.exp(logs) + LEAST) / count).astype(np.int64))
    wanted = (np.arange(num_clients)[:, None] + np.arange(count)) % len(classes)
    needed = np.bincount(wanted.ravel(), np.repeat(each, count), len(classes)).astype(np.int64)
    for label, need, pool in zip(classes, needed, pools, strict=True):
        if need > len(pool):
            raise ValueError(
                f"{num_clients} clients with few labels need {need} samples with label {label}, got {len(pool)}; take "
                "fewer clients, or a smaller sigma."
            )
    taken, clients = np.zeros(len(classes), np.int64), []
    for mine, amount in zip(wanted, each, strict=True):
        clients.append(np.sort(np.concatenate([pools[c][taken[c] : taken[c] + amount] for c in mine])))
        taken[mine] += amount
    return clients


def dirichlet(
    labels: ArrayLike, num_clients: int, beta: float = 0.5, min_samples: int = 1, seed: int = 0
) -> list[Indices]:
    """Share out each label over the clients in proportions p ~ Dirichlet(beta, ..., beta), drawn for each label.

    Parameters
    ----------
    labels, num_clients, seed
        As in ``iid``; the labels are classes.
    beta
        Small for clients with few labels each and very different sizes, large for clients that are alike.
    min_samples
        A client that has fewer is given random samples of the largest client until it has as many; 0 leaves the
        draw as it is, also with clients that have nothing.
    """
    if not 0 < beta < math.inf:
        raise ValueError(f"dirichlet needs beta > 0, got {beta}; 0.1 gives very different clients, 100 clients alike.")
    size, values = _size(labels, num_clients, min_samples), np.asarray(labels)
    classes, codes = np.unique(values, return_inverse=True)
    if len(classes) > min(MAX_CLASSES, max(2, size // 2)):
        raise ValueError(f"dirichlet needs classes, got {len(classes)} different labels; use shards, iid or quantity.")
    rng = _generator(seed)
    owner = np.empty(size, np.int64)
    for c in range(len(classes)):
        rows = rng.permutation(np.flatnonzero(codes == c))
        for client, part in enumerate(_cut(rows, rng.dirichlet(np.full(num_clients, beta)))):
            owner[part] = client
    return _filled([np.flatnonzero(owner == client) for client in range(num_clients)], min_samples, rng)


def quantity(
    labels: ArrayLike, num_clients: int, sigma: float = 1.0, min_samples: int = 1, seed: int = 0
) -> list[Indices]:
    """Deal the samples out at random, with sizes in proportion to lognormal(0, sigma): some clients have a lot more.

    Parameters
    ----------
    labels, num_clients, seed
        As in ``iid``.
    sigma
        Spread of the logarithm of a client's size; 0 for equal sizes.
    min_samples
        Every client gets as many before the rest is shared out.
    """
    if not 0 <= sigma < math.inf:
        raise ValueError(f"quantity needs sigma >= 0, got {sigma}; 0 gives equal sizes.")
    size, rng = _size(labels, num_clients, min_samples), _generator(seed)
    rows = rng.permutation(size)
    first, rest = rows[: min_samples * num_clients], rows[min_samples * num_clients :]
    # exp(z - max z) are the same proportions, and no sigma makes them overflow.
    weights = sigma * rng.standard_normal(num_clients)
    shares = np.exp(weights - weights.max())
    more = _cut(rest, shares / shares.sum())
    return [np.concatenate([a, b]) for a, b in zip(np.split(first, num_clients), more, strict=True)]


def by_column(column: ArrayLike) -> list[Indices]:
    """Give each value of a column a client, in the order of ``np.unique(column)``: by writer, by hospital.

    Examples
    --------
    >>> [part.tolist() for part in by_column(["b", "a", "b"])]
    [[1], [0, 2]]
    """
    values = np.asarray(column)
    if values.ndim != 1 or len(values) == 0:
        raise ValueError(f"A column has one value for each sample, got shape {values.shape}.")
    _, codes = np.unique(values, return_inverse=True)
    order = np.argsort(codes, kind="stable").astype(np.int64)
    return np.split(order, np.cumsum(np.bincount(codes))[:-1])


def _cut(rows: Indices, shares: NDArray[np.float64]) -> list[Indices]:
    """Cut rows into consecutive pieces with these shares of them, rounded so that the pieces add up."""
    ends = np.floor(np.cumsum(shares) * len(rows)).astype(np.int64)
    return np.split(rows, np.minimum(ends[:-1], len(rows)))


def _filled(clients: list[Indices], min_samples: int, rng: np.random.Generator) -> list[Indices]:
    """Move samples to clients with too few; while there is one, the largest has more than it needs."""
    for needy in range(len(clients)):
        while (lack := min_samples - len(clients[needy])) > 0:
            largest = max(range(len(clients)), key=lambda i: len(clients[i]))
            count = min(lack, len(clients[largest]) - min_samples)
            moved = rng.choice(len(clients[largest]), count, replace=False)
            clients[needy] = np.sort(np.concatenate([clients[needy], clients[largest][moved]]))
            clients[largest] = np.delete(clients[largest], moved)
    return clients


def _size(labels: ArrayLike, num_clients: int, least: int) -> int:
    """Return the number of samples, of which every client needs some."""
    shape = np.shape(labels)
    if len(shape) != 1:
        raise ValueError(f"A partition needs one label for each sample, got labels of shape {shape}.")
    if not isinstance(num_clients, Integral) or num_clients < 1:
        raise ValueError(f"A federation needs num_clients >= 1, a whole number, got {num_clients}.")
    if not isinstance(least, Integral) or least < 0:
        raise ValueError(f"min_samples must be a whole number >= 0, got {least}.")
    if shape[0] < num_clients * least:
        raise ValueError(
            f"{num_clients} clients with {least} or more samples each need {num_clients * least} samples, got "
            f"{shape[0]}; take fewer clients."
        )
    return int(shape[0])


def _generator(seed: int) -> np.random.Generator:
    if not isinstance(seed, Integral) or seed < 0:
        raise ValueError(f"The seed must be a whole number >= 0, got {seed}.")
    # 61 sets this stream apart from those that others derive from the same seed.
    return np.random.default_rng(np.random.SeedSequence(int(seed), spawn_key=(61,)))
