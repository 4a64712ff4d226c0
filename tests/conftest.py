"""Small federations that the tests share."""

import signal
from collections.abc import Iterator

import hypothesis
import jax
import numpy as np
import pytest

from feddr import FederatedData

# The same examples in every run, so that a failure comes from a change; --hypothesis-profile=explore draws others.
# No deadline: a busy machine is no failure.
hypothesis.settings.register_profile("same", derandomize=True, deadline=None)
hypothesis.settings.register_profile("explore", derandomize=False, deadline=None)
hypothesis.settings.load_profile("same")

# A shell that starts tests in the background lets them, and what they start, ignore Ctrl-C, which some of them send.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

SLOW = ("checkpoint", "reliability", "reproduce", "tune")
"""Folders of tests that kill processes, sync disks or search with many small runs."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of the slow folders, which ``make test-slow`` runs."""
    for item in items:
        own = any(item.get_closest_marker(name) for name in ("deploy", "reliability"))
        if not own and item.path.parent.name in SLOW:
            item.add_marker("slow")


@pytest.fixture
def x64() -> Iterator[None]:
    """JAX in 64-bit mode for the length of a test."""
    with jax.enable_x64(True):
        yield


@pytest.fixture(scope="session")
def regression_data() -> FederatedData:
    """Least-squares data over five uneven clients whose solutions differ."""
    return make_regression(sizes=(7, 40, 12, 25, 3), dimension=6, seed=1)


@pytest.fixture(scope="session")
def class_data() -> FederatedData:
    """Three classes over four uneven clients, with test parts."""
    return make_classes(sizes=(13, 30, 8, 21), dimension=5, classes=3, seed=2)


def make_signs() -> FederatedData:
    """Return four clients of different sizes with five features ``x`` and labels ``sign`` of -1 and 1."""
    rng = np.random.default_rng(4)
    truth = rng.normal(size=5)
    clients = []
    for size, shift in [(30, 0.0), (8, 0.5), (55, -0.5), (17, 1.0)]:
        x = rng.normal(shift, 1.0, (size, 5))
        clients.append({"x": x, "sign": np.where(x @ truth + rng.logistic(size=size) > 0, 1.0, -1.0)})
    return FederatedData.from_clients(clients)


def make_regression(sizes: tuple[int, ...], dimension: int, seed: int) -> FederatedData:
    rng = np.random.default_rng(seed)
    clients = []
    for size in sizes:
        x = rng.normal(size=(size, dimension))
        clients.append({"x": x, "y": x @ rng.normal(size=dimension) + 0.1 * rng.normal(size=size)})
    return FederatedData.from_clients(clients)


def make_classes(sizes: tuple[int, ...], dimension: int, classes: int, seed: int) -> FederatedData:
    rng = np.random.default_rng(seed)

    def client(size: int, shift: float) -> dict[str, np.ndarray]:
        x = rng.normal(shift, 1.0, (size, dimension))
        y = np.argmax(x @ rng.normal(size=(dimension, classes)), axis=1)
        return {"x": x, "y": y.astype(np.int64)}

    train = [client(size, 0.3 * i) for i, size in enumerate(sizes)]
    return FederatedData.from_clients(train, [client(5 + i, 0.3 * i) for i in range(len(sizes))])
