"""The connection to a Ray cluster, and which versions its machines must have; it imports nothing of JAX's."""

import logging
import platform
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from typing import Any

from feddr.storage import limits
from feddr.validation import kinds

OBJECT_STORE = 500_000_000
"""Bytes for the objects of a Ray that is started here."""

SAME = ("feddr", "jax", "jaxlib", "numpy", "optax")
"""Packages whose versions must agree for results to have the same bits."""


def versions() -> dict[str, str]:
    """Return what must be the same on all machines, by name."""
    return {"Python": platform.python_version(), **{name: version(name) for name in SAME}}


def check_versions(machine: str, there: Mapping[str, str], here: Mapping[str, str]) -> None:
    """Refuse a machine with other versions than those of the driver.

    Examples
    --------
    >>> check_versions("b", {"jax": "4"}, {"jax": "5"})
    Traceback (most recent call last):
    ValueError: All machines need the same versions for the same bits, b has jax 4 (here 5); install the same there.
    """
    other = [f"{name} {there[name]} (here {here[name]})" for name in here if there[name] != here[name]]
    if other:
        raise ValueError(
            f"All machines need the same versions for the same bits, {machine} has {', '.join(other)}; install the "
            "same there."
        )


@contextmanager
def connected(
    address: str | None, cpus: int, what: str = "simulate_cluster", object_store: int = OBJECT_STORE
) -> Iterator[Any]:
    """Connect to a Ray cluster, or start one here; one that this process is connected to is used, and left open.

    Parameters
    ----------
    address
        ``"auto"``, ``"host:6379"``, ``"ray://host:10001"``; None or ``"local"`` for one that is started.
    cpus
        Cores of one that is started, or as many as the machine has where that is more.
    what
        Who needs Ray, in the message where it is not installed.
    object_store
        Bytes for the objects of one that is started.

    Raises
    ------
    ModuleNotFoundError
        Where Ray is not installed.
    ValueError
        Where there is no cluster at the address.
    """
    try:
        import ray
    except ModuleNotFoundError:
        raise kinds.missing(what, "ray", "'feddr[ray]'") from None
    if ray.is_initialized():
        yield ray
        return
    here: dict[str, Any] = {}
    if address is None or address == "local":
        address = "local"
        here = {"num_cpus": max(cpus, limits.cores()), "include_dashboard": False, "object_store_memory": object_store}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # Ray's own plans
            warnings.filterwarnings("ignore", "os.fork", RuntimeWarning)  # it becomes another program at once
            ray.init(address=address, log_to_driver=False, logging_level=logging.WARNING, **here)
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise ValueError(
            f'address must be that of a Ray cluster, or "local" for one that is started here, got {address!r}: {error}'
        ) from None
    try:
        yield ray
    finally:
        ray.shutdown()
