"""Samples, weights and starts of every type and container: f, F and the gradient against NumPy on the pooled data."""

import functools
import random
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pandas as pd

import feddr
from tests.fuzz.api import REFUSED, Case, within

FEATURES = 2
POINT = np.array([0.5, -1.25])
SIZES = (4, 2, 3)


def squares(params: Any, batch: Any) -> Any:
    """Half the square of the residual, one number a sample."""
    return 0.5 * (batch["x"] @ params - batch["y"]) ** 2


class Frame:
    """What pandas and others look like to NumPy: an object that can be made an array."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.asarray(self.array, dtype)

    def __len__(self) -> int:
        return len(self.array)


def _typed(name: str) -> Callable[[Any], Any]:
    return lambda a: a.astype(name)


KEPT: dict[str, Callable[[Any], Any]] = {
    **{name: _typed(name) for name in ("float64", "float32", "float16", "longdouble", ">f8", ">f4")},
    **{name: _typed(name) for name in ("int8", "int16", "int32", "int64", ">i4", "object")},
    "list": lambda a: a.tolist(),
    "tuple": lambda a: tuple(map(tuple, a.tolist())) if a.ndim == 2 else tuple(a.tolist()),
    "list of arrays": list,
    "fortran": np.asfortranarray,
    "every other row": lambda a: np.repeat(a, 2, axis=0)[::2],
    "backwards": lambda a: np.ascontiguousarray(a[::-1])[::-1],
    "read-only": lambda a: np.frombuffer(a.tobytes(), a.dtype).reshape(a.shape),
    "jax": jnp.asarray,
    "jax bfloat16": lambda a: jnp.asarray(a, jnp.bfloat16),
    "bfloat16": lambda a: np.asarray(a, jnp.bfloat16),
    "pandas": lambda a: pd.DataFrame(a) if a.ndim == 2 else pd.Series(a, index=range(7, 7 + len(a))),
    "pandas nullable": lambda a: pd.DataFrame(a).astype("Float64") if a.ndim == 2 else pd.Series(a, dtype="Float64"),
    "an object with __array__": Frame,
    "complex with no imaginary part": _typed("complex128"),
    "text": lambda a: a.astype(str),
    "masked with no mask": np.ma.masked_array,
}
"""The same numbers, small whole ones, in another form."""

CHANGED: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "bool": (lambda a: a > 0, lambda a: a > 0),
    "uint8": (lambda a: np.abs(a).astype(np.uint8), np.abs),
    "uint64": (lambda a: np.abs(a).astype(np.uint64), np.abs),
    "large int64": (lambda a: (a * 2**31).astype(np.int64), lambda a: a * 2**31),
    "large uint32": (lambda a: (np.abs(a) + 2**31).astype(np.uint32), lambda a: np.abs(a) + 2**31),
    "larger than int64": (lambda a: a.astype(object) * 2**70, lambda a: a * 2.0**70),
    "thirds": (lambda a: (a / 3).tolist(), lambda a: a / 3),
    "thirds as objects": (lambda a: (a / 3).astype(object), lambda a: a / 3),
    "tiny": (lambda a: a * 1e-300, lambda a: a * 1e-300),
}
"""Other numbers, and what they are."""

SENSELESS: dict[str, Callable[[Any], Any]] = {
    "complex": lambda a: a + 1j,
    "words": lambda a: np.full(a.shape, "a"),
    "None": lambda a: np.full(a.shape, None),
    "dates": lambda a: np.full(a.shape, np.datetime64("2020-01-01")),
    "durations": lambda a: a.astype("timedelta64[s]"),
    "bytes": lambda a: a.astype("S"),
    "records": lambda a: np.zeros(a.shape, "f8,i4"),
    "ragged": lambda a: [[1.0], *[[1.0, 2.0]] * (len(a) - 1)],
    "one number": lambda _: 3.0,
    "nothing": lambda _: None,
    "a generator": iter,
    "a set": lambda a: set(np.ravel(a).tolist()),
    "a dict": lambda a: {"x": a},
    "no rows": lambda a: a[:0],
    "a row less": lambda a: a[:-1],
    "a masked entry": lambda a: np.ma.masked_array(a, mask=np.arange(a.size).reshape(a.shape) == 1),
    "pandas with a missing number": lambda a: pd.DataFrame(a).astype("Float64").mask(pd.DataFrame(a) == a.flat[0]),
}
"""What is no array of numbers with a row for each sample."""


def samples(rng: random.Random) -> list[dict[str, Any]]:
    """Draw small whole numbers for three clients, which every type holds."""

    def whole(*shape: int) -> Any:
        return np.array([rng.choice([-3, -2, -1, 1, 2, 3]) for _ in range(int(np.prod(shape)))], float).reshape(shape)

    return [{"x": whole(size, FEATURES), "y": whole(size)} for size in SIZES]


def pooled(clients: list[dict[str, Any]], weights: Any) -> Callable[[Any], tuple[Any, Any]]:
    """Return the function from x to f and its gradient, in NumPy."""

    def f(x: Any) -> tuple[Any, Any]:
        value, gradient = 0.0, np.zeros(FEATURES)
        for w, c in zip(weights, clients, strict=True):
            a, b = np.asarray(c["x"], np.float64), np.asarray(c["y"], np.float64)
            residual = a @ x - b
            value, gradient = value + w * np.mean(residual**2) / 2, gradient + w * a.T @ residual / len(b)
        return value, gradient

    return f


def federation(rng: random.Random) -> Case:
    """Draw a form for one array, of one client or of all."""
    clients, weights = samples(rng), np.full(3, 1 / 3)
    which, everybody = rng.choice("xy"), rng.random() < 0.5
    table: dict[str, Any] = rng.choice([KEPT, KEPT, CHANGED, SENSELESS])
    form = rng.choice(sorted(table))
    give, mean = CHANGED[form] if table is CHANGED else (table[form], lambda a: a)
    changed = range(3) if everybody else [rng.randrange(3)]
    given = [{**c, which: give(c[which])} if i in changed else c for i, c in enumerate(clients)]

    def call() -> Any:
        problem = feddr.Problem(squares, feddr.FederatedData.from_clients(given), np.zeros(FEATURES))
        return problem.f(POINT), problem.gradient(POINT)

    def expected() -> Any:
        meant = [{**c, which: mean(c[which])} if i in changed else c for i, c in enumerate(clients)]
        return pooled(meant, weights)(POINT)

    text = f"{which} of {'all clients' if everybody else 'a client'} as {form}"
    refused = table is SENSELESS
    return Case("samples", text, call, REFUSED if refused else expected, within(1e-9))


def _same(value: Any) -> Any:
    return value


WEIGHTS: dict[str, tuple[Callable[[], Any], Any]] = {
    "uniform": (lambda: "uniform", [1, 1, 1]),
    "samples": (lambda: "samples", SIZES),
    "a list": (lambda: [1, 2, 3], [1, 2, 3]),
    "a tuple": (lambda: (0.5, 0.25, 0.25), [2, 1, 1]),
    "whole numbers": (lambda: np.array([1, 2, 3], np.int8), [1, 2, 3]),
    "large whole numbers": (lambda: np.array([100, 100, 100], np.int8), [1, 1, 1]),
    "float16": (lambda: np.array([1, 2, 3], np.float16), [1, 2, 3]),
    "jax": (lambda: jnp.array([1.0, 2.0, 3.0]), [1, 2, 3]),
    "pandas": (lambda: pd.Series([1.0, 2.0, 3.0], index=[5, 6, 7]), [1, 2, 3]),
    "objects": (lambda: np.array([1, 2.0, 3], object), [1, 2, 3]),
    "an object with __array__": (lambda: Frame([1.0, 2.0, 3.0]), [1, 2, 3]),
    "huge": (lambda: [1e308, 1e308, 1e308], [1, 1, 1]),
    "tiny": (lambda: [1e-320, 1e-320, 1e-320], [1, 1, 1]),
    "text": (lambda: ["1", "2", "3"], [1, 2, 3]),
    "truths": (lambda: [True, True, True], [1, 1, 1]),
    **{
        name: (functools.partial(_same, value), REFUSED)
        for name, value in {
            "another word": "equal",
            "none": None,
            "too few": [1, 2],
            "too many": [1, 2, 3, 4],
            "a matrix": [[1, 2, 3]],
            "a column": np.ones((3, 1)),
            "one number": 1.0,
            "a zero": [1, 0, 2],
            "negative": [1, -1, 2],
            "nan": [1, np.nan, 2],
            "inf": [1, np.inf, 2],
            "complex": [1, 1j, 2],
            "words": ["a", "b", "c"],
            "a dict": {0: 1, 1: 2, 2: 3},
            "a set": {1, 2, 3},
            "false": [True, False, True],
            "dates": np.full(3, np.datetime64("2020")),
        }.items()
    },
    "a generator": (lambda: iter([1, 2, 3]), REFUSED),
}


def weighting(rng: random.Random) -> Case:
    """Draw weights for the clients."""
    clients, form = samples(rng), rng.choice(sorted(WEIGHTS))
    make, meant = WEIGHTS[form]

    def call() -> Any:
        data = feddr.FederatedData.from_clients(clients)
        problem = feddr.Problem(squares, data, np.zeros(FEATURES), weights=make())
        return (problem.f(POINT), problem.gradient(POINT)), problem.client_weights

    def expected() -> Any:
        shares = np.asarray(meant, float) / np.sum(meant)
        return pooled(clients, shares)(POINT), shares

    return Case("weights", form, call, meant if meant is REFUSED else expected, within(1e-9))


STARTS: dict[str, tuple[Callable[[], Any], Any]] = {
    **{
        name: (functools.partial(form, np.array([2.0, -1.0])), [2, -1])
        for name, form in KEPT.items()
        if name not in ("list", "tuple", "list of arrays")
    },
    "one third": (lambda: np.array([1, -2]) / 3, [1 / 3, -2 / 3]),
    "large whole numbers": (lambda: np.array([2**40, 1]), [2**40, 1]),
    "truths": (lambda: np.array([True, False]), [1, 0]),
    **{
        name: (functools.partial(_same, value), REFUSED)
        for name, value in {
            "nan": np.array([np.nan, 1.0]),
            "inf": np.array([np.inf, 1.0]),
            "complex": np.array([1j, 1.0]),
            "words": np.array(["a", "b"]),
            "nothing": None,
            "objects": np.array([None, None]),
            "dates": np.full(2, np.datetime64("2020")),
            "beyond float64": np.array([10**400, 1], object),
        }.items()
    },
}


def start(rng: random.Random) -> Case:
    """Draw a start, and take one step of gradient descent from it."""
    clients, form = samples(rng), rng.choice(sorted(STARTS))
    make, meant = STARTS[form]

    def call() -> Any:
        problem = feddr.Problem(squares, feddr.FederatedData.from_clients(clients), make())
        once = feddr.local.SGD(lr=0.125, epochs=1, batch_size=None)
        settings: dict[str, Any] = {"local": once, "rounds": 1, "precision": "float64"}
        return [engine(problem, feddr.FedAvg(), **settings).params for engine in (feddr.simulate, feddr.reference)]

    def expected() -> Any:
        x = np.asarray(meant, float)
        new = x - 0.125 * pooled(clients, np.full(3, 1 / 3))(x)[1]
        return [new, new]

    return Case("starts", form, call, meant if meant is REFUSED else expected, within(1e-9))


EMPTY = """
import sys, numpy as np, feddr
shape, leaf, count, engine = eval(sys.argv[1])
rng = np.random.default_rng(0)
clients = [{"x": rng.normal(size=(3, 2)), "y": rng.normal(size=3), "e": np.zeros((3, *shape))} for _ in range(2)]
init = {"w": np.zeros(2), "e": np.zeros(leaf)}
loss = lambda p, b: 0.5 * (b["x"] @ p["w"] - b["y"]) ** 2 + b["e"].reshape(len(b["y"]), -1).sum(1) + p["e"].sum()
problem = feddr.Problem(loss, feddr.FederatedData.from_clients(clients), init)
solver = feddr.local.SGD(lr=0.125, batch_size=count)
settings = {"local": solver, "precision": "float64", ("updates" if engine == "simulate_async" else "rounds"): 2}
algorithm = feddr.FedAsync() if engine == "simulate_async" else feddr.FedAvg()
print(*getattr(feddr, engine)(problem, algorithm, **settings).params["w"])
"""
"""A run in a process of its own: the compiler has ended processes over arrays without entries."""


def empty(rng: random.Random) -> Case:
    """Draw arrays without entries, among the samples and the parameters."""
    engine, count = rng.choice(["simulate", "simulate_async"]), rng.choice([None, 2])
    shape, leaf = rng.choice([((), (0,)), ((0,), ()), ((2, 0), (0, 3)), ((0,), (0,))])

    def run(*case: Any) -> Any:
        words = [sys.executable, "-c", EMPTY, repr(case)]
        ended = subprocess.run(words, capture_output=True, text=True, check=False, timeout=300)
        if ended.returncode:
            raise RuntimeError(f"exit code {ended.returncode}: {ended.stderr[-200:]}")
        return np.array(ended.stdout.split(), float)

    text = f"{engine} with samples of shape {shape} and parameters of shape {leaf}, batch_size={count}"
    return Case(
        "empty arrays", text, lambda: run(shape, leaf, count, engine), lambda: run((), (), count, engine), within(1e-9)
    )


def drawn(rng: random.Random) -> Case:
    """Draw a federation, weights or a start, and now and then arrays without entries."""
    if rng.randrange(100) == 0:
        return empty(rng)
    return rng.choice([federation, federation, federation, weighting, start])(rng)
