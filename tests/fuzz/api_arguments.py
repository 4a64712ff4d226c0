"""Arguments of engines, solvers, samplers and algorithms: a number in another form is that number, or refused."""

import math
import random
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

import feddr
from feddr import delays, local, sampling
from tests.fuzz.api import REFUSED, Case, within
from tests.fuzz.api_data import FEATURES, samples, squares
from tests.fuzz.api_runs import numbers

ODD: list[Any] = [
    *(-1, 0, 1, 2, True, False, 2.0, 2.5, 0.5, -0.5, 1e-3, 10**30, 1e30, -(10**30), float("nan"), float("inf"), "2"),
    *("", "auto", None, 1j, [], [1], [1, 2, 3], (0.5, 0.5, 0.5), {}, {1: 2}, np.int64(2), np.int8(1), np.uint64(2)),
    *(np.float32(0.5), np.float64(2.5), np.array(2), np.array(0.5), np.array([2]), np.array([1.0, 2.0, 3.0])),
    *(np.array([]), np.bool_(True), jnp.asarray(2), jnp.asarray(0.5), np.datetime64("2020"), b"2", object, len),
]
"""Values of all types."""


def _number(value: Any) -> float | None:
    """Return the real number that a value is, None where it is none."""
    array = np.asarray(value) if not isinstance(value, str | bytes | type) and value is not None else None
    if array is None or array.ndim or array.dtype.kind not in "biuf":
        return float(value) if isinstance(value, int) else None
    return float(array)


def whole(least: int) -> Callable[[Any], Any]:
    """Return the meaning of a value as a whole number, of at least so much and of no more than a run can have."""

    def meaning(value: Any) -> Any:
        number = _number(value)
        if number is None or not math.isfinite(number) or number != int(number) or number < least:
            return REFUSED
        return int(number)

    return meaning


def positive(value: Any) -> Any:
    """Return the meaning of a value as a number above 0."""
    number = _number(value)
    return REFUSED if number is None or not 0 < number < math.inf else number


def either(*meanings: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return the first meaning that a value has."""
    return lambda value: next((m for m in (f(value) for f in meanings) if m is not REFUSED), REFUSED)


def is_none(value: Any) -> Any:
    """Return None, the meaning of None."""
    return None if value is None else REFUSED


def each(value: Any) -> Any:
    """Return the meaning of a value as one positive number for each of the three clients."""
    if isinstance(value, str | bytes | dict | type) or value is None or np.shape(value) != (3,):
        return REFUSED
    found = [positive(one) for one in value]
    return REFUSED if REFUSED in found else found


def at_most(high: float, mean: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return the meaning of a value whose numbers are no larger than ``high``."""
    return lambda value: REFUSED if (m := mean(value)) is REFUSED or np.max(m) > high else m


def between(low: float, high: float) -> Callable[[Any], Any]:
    """Return the meaning of a value as a number with low <= number < high."""

    def meaning(value: Any) -> Any:
        number = _number(value)
        return REFUSED if number is None or not low <= number < high else number

    return meaning


UNSEEN = ("threads", "client_memory", "clock")
"""What changes no number, and the reference does not know."""

TOO_MANY = 100
"""A whole number beyond this is not tried: a run of that length, or as many threads, would be right, and long."""

OPTIONS: dict[str, Callable[[Any], Any]] = {
    "rounds": whole(0),
    "seed": whole(0),
    "evaluate_every": whole(1),
    "threads": either(whole(1), is_none),
    "client_memory": whole(0),
}
PARTS: dict[str, tuple[Callable[[Any], dict[str, Any]], Callable[[Any], Any]]] = {
    "SGD lr": (lambda v: {"local": local.SGD(lr=v, batch_size=None)}, positive),
    "SGD epochs": (lambda v: {"local": local.SGD(lr=0.0625, epochs=v, batch_size=None)}, whole(1)),
    "SGD batch_size": (lambda v: {"local": local.SGD(lr=0.0625, batch_size=v)}, either(whole(1), is_none)),
    "SGD momentum": (lambda v: {"local": local.SGD(lr=0.0625, momentum=v)}, between(0, 1)),
    "Uniform m": (lambda v: {"sampling": sampling.Uniform(v)}, at_most(3, whole(1))),
    "Independent p": (lambda v: {"sampling": sampling.Independent(v)}, at_most(1, either(positive, each))),
    "Fixed seconds": (lambda v: {"clock": feddr.Clock(delays.Fixed(v))}, either(positive, each)),
    "FedDR eta": (lambda v: {"algorithm": feddr.FedDR(eta=v, alpha=1.0)}, either(positive, each)),
    "FedDR alpha": (lambda v: {"algorithm": feddr.FedDR(eta=0.5, alpha=v)}, positive),
    "FedProx mu": (lambda v: {"algorithm": feddr.FedProx(mu=v)}, positive),
    "Scaffold server_lr": (lambda v: {"algorithm": feddr.Scaffold(server_lr=v)}, positive),
    "FedDyn eta": (lambda v: {"algorithm": feddr.FedDyn(eta=v)}, positive),
}


def drawn(rng: random.Random) -> Case:
    """Draw an argument and a value for it."""
    name, value = rng.choice([*sorted(OPTIONS), *sorted(PARTS)]), rng.choice(ODD)
    make, mean = PARTS[name] if name in PARTS else (lambda v: {name: v}, OPTIONS[name])
    meaning = mean(value)
    if name == "Fixed seconds" and isinstance(value, float) and value == math.inf:  # a client that never finishes
        return drawn(rng)
    size = _number(value)
    if isinstance(value, str) and value == "auto" and name.startswith("FedDR"):
        return drawn(rng)
    if meaning is not REFUSED and size is not None and size > TOO_MANY:
        return drawn(rng)
    clients, data_seed = samples(rng), rng.randrange(3)

    def settings(v: Any) -> dict[str, Any]:
        usual: dict[str, Any] = {
            "algorithm": feddr.FedAvg(),
            "local": local.SGD(lr=0.0625, epochs=1, batch_size=None),
            "rounds": 2,
            "seed": data_seed,
            "precision": "float64",
        }
        return {**usual, **make(v)}

    def call() -> Any:
        where = feddr.Problem(squares, feddr.FederatedData.from_clients(clients), np.zeros(FEATURES))
        return numbers(feddr.simulate(where, **settings(value)))

    def expected() -> Any:
        where = feddr.Problem(squares, feddr.FederatedData.from_clients(clients), np.zeros(FEATURES))
        usual = {key: v for key, v in settings(meaning).items() if key not in UNSEEN}
        return numbers(feddr.reference(where, **usual))

    return Case("arguments", f"{name}={value!r}", call, REFUSED if meaning is REFUSED else expected, within(1e-9))
