"""Runs with options drawn at random: the simulator against the reference loop, and both against gradient descent."""

import random
import tempfile
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

import feddr
from feddr import delays, local, prox, sampling
from tests.fuzz.api import Case, within
from tests.fuzz.api_data import FEATURES, pooled, samples, squares

CLIENTS = 3
PLAIN: list[Callable[[random.Random], Any]] = [
    lambda _: feddr.FedAvg(),
    lambda r: feddr.FedProx(mu=r.choice([0.125, 0.5])),
    lambda r: feddr.FedDyn(eta=r.choice([0.5, 2.0])),
    lambda r: feddr.Scaffold(server_lr=r.choice([0.5, 1.0])),
    lambda r: feddr.MimeLite(beta=r.choice([0.0, 0.7])),
    lambda r: feddr.FedAvgM(momentum=r.choice([0.0, 0.7])),
    lambda r: feddr.FedNova(server_lr=r.choice([0.5, 1.0])),
    lambda _: feddr.FedAdam(),
    lambda _: feddr.FedYogi(),
    lambda _: feddr.FedAdagrad(),
]
TOGETHER: list[Callable[[random.Random], Any]] = [
    lambda _: feddr.FedPD(eta=0.5),
    lambda _: feddr.FedSplit(eta=0.5),
    lambda r: feddr.FedDecoupled(server_lr=r.choice([0.5, 1.0])),
    lambda r: feddr.Scaffnew(p=r.choice([0.25, 1.0])),
]
COMPOSITE: list[Callable[[random.Random], Any]] = [
    lambda r: feddr.FedDR(
        eta=r.choice([0.5, 2, [0.5, 1.0, 2.0]]),
        alpha=r.choice([1, 1.5]),
        init=r.choice(["lazy", "full", "joining"]),
        start=r.choice(["xbar", "own"]),
        mean=r.choice(["all", "active"]),
    ),
    lambda r: feddr.FedMid(server_lr=r.choice([0.5, 1.0]), proximal=r.choice(["both", "server", "clients"])),
    lambda r: feddr.FedDualAvg(server_lr=r.choice([0.5, 1.0])),
]
SOLVERS: list[Callable[[], Any]] = [
    lambda: local.SGD(lr=0.0625, epochs=2, batch_size=2),
    lambda: local.SGD(lr=0.0625, epochs=1, batch_size=None),
    lambda: local.SGD(lr=0.03125, epochs=3, batch_size=100),
]
SAMPLERS: list[Callable[[], Any]] = [
    sampling.Full,
    lambda: sampling.Uniform(2),
    lambda: sampling.Uniform(1),
    lambda: sampling.Independent(0.5),
    lambda: sampling.Independent([0.25, 1.0, 0.5]),
    lambda: sampling.Partitioned(2),
    lambda: sampling.Partitioned([[0, 2], [1]]),
]
REGULARISERS: list[Callable[[], Any]] = [
    lambda: None,
    prox.Zero,
    lambda: prox.L1(0.125),
    lambda: prox.L1(np.array([0.0, 0.25])),
    lambda: prox.L2(0.25),
    lambda: prox.SquaredL2(0.5),
    lambda: prox.ElasticNet(0.125, 0.5),
    lambda: prox.LInf(0.25),
    lambda: prox.LInf(1e-12),
    lambda: prox.Box(-0.5, 0.25),
    lambda: prox.NonNegative(),
    lambda: prox.Simplex(),
    lambda: prox.L1Ball(0.5),
    lambda: prox.L2Ball(0.5),
    lambda: prox.GroupL2(0.25, [[1, 0]]),
    lambda: prox.Translated(prox.L1(0.125), np.array([1.0, -1.0])),
    lambda: prox.Scaled(prox.L1(0.125), 2.0),
]
WEIGHTS: list[Any] = ["uniform", "samples", [1, 2, 3]]
SAME: list[dict[str, Any]] = [
    {},
    {"threads": 1},
    {"threads": 2},
    {"client_memory": 1},
    {"personal": True},
    {"checkpoint": 2},
    {"on_bad_client": "stop"},
    {"callback": lambda _: None},
    {"clock": feddr.Clock(delays.UniformSpeed(1.0, 2.0))},
]
"""Options of the simulator that change no number."""

ASYNCHRONOUS: list[Callable[[random.Random], Any]] = [
    lambda r: feddr.AsyncFedDR(eta=r.choice([0.5, 2.0]), alpha=r.choice([0.5, 1.0])),
    lambda _: feddr.FedAsync(),
    lambda _: feddr.FedBuff(buffer=2),
    lambda _: feddr.CA2FL(buffer=2),
]


def problem(rng: random.Random, g: Any, weights: Any) -> feddr.Problem:
    """Return a small least-squares problem."""
    init = np.array([rng.choice([0.0, 0.5]), -0.25])
    return feddr.Problem(squares, feddr.FederatedData.from_clients(samples(rng)), init, g, weights)


def synchronous(rng: random.Random) -> Case:
    """Draw a run of ``simulate`` beside the same of ``reference``."""
    composite = rng.random() < 0.6
    together = not composite and rng.random() < 0.2
    table = COMPOSITE if composite else TOGETHER if together else PLAIN
    algorithm = rng.choice(table)(rng)
    g = rng.choice(REGULARISERS)() if composite else None
    sampler = sampling.Full() if together else rng.choice(SAMPLERS)()
    where, extra, weights = problem(rng, g, w := rng.choice(WEIGHTS)), rng.choice(SAME), w
    options: dict[str, Any] = {
        "local": rng.choice(SOLVERS)(),
        "sampling": sampler,
        "rounds": rng.choice([0, 1, 3]),
        "seed": rng.choice([0, 1, 7]),
        "precision": rng.choice(["float64", "float64", "float32"]),
        "evaluate_every": rng.choice([1, 2, 10]),
    }

    def call() -> Any:
        if "checkpoint" not in extra:
            return numbers(feddr.simulate(where, algorithm, **options, **extra))
        with tempfile.TemporaryDirectory(prefix="feddr-fuzz-") as folder:
            first = {**options, "rounds": options["rounds"] // 2}
            every = feddr.Checkpoint(folder, every=extra["checkpoint"])
            feddr.simulate(where, algorithm, **first, checkpoint=every)
            return numbers(feddr.simulate(where, algorithm, **options, checkpoint=replace(every, resume=True)))

    def expected() -> Any:
        return numbers(feddr.reference(where, algorithm, **options))

    if "checkpoint" in extra:
        options["evaluate_every"] = 1
    tolerance = 1e-9 if options["precision"] == "float64" else 2e-4
    text = f"{algorithm}, g={g}, weights={weights}, {options}, {sorted(extra)}"
    return Case("simulate", text, call, expected, within(tolerance))


def numbers(result: feddr.Result) -> Any:
    """Return what two engines must agree on."""
    rows = result.history.rows
    counts = [(row.round, row.bytes_up, row.bytes_down, row.local_steps) for row in rows]
    metrics = [(row.F, row.f, row.g, row.gradient_mapping) for row in rows]
    return {"params": result.params, "counts": np.array(counts), "F": np.array(metrics)}


def asynchronous(rng: random.Random) -> Case:
    """Draw a run of ``simulate_async`` beside one that computes each job at its start."""
    algorithm = rng.choice(ASYNCHRONOUS)(rng)
    g = rng.choice(REGULARISERS)() if isinstance(algorithm, feddr.AsyncFedDR) else None
    where = problem(rng, g, rng.choice(WEIGHTS))
    options: dict[str, Any] = {
        "local": rng.choice(SOLVERS)(),
        "updates": rng.choice([0, 1, 6]),
        "clock": rng.choice([None, feddr.Clock(delays.UniformSpeed(1.0, 2.0))]),
        "concurrency": rng.choice([None, 1, 2]),
        "seed": rng.choice([0, 5]),
        "precision": rng.choice(["float64", "float32"]),
        "evaluate_every": rng.choice([1, 3]),
    }

    def call() -> Any:
        return numbers(feddr.simulate_async(where, algorithm, **options))

    def expected() -> Any:
        return numbers(feddr.simulate_async(where, algorithm, **options, eager=True, threads=1))

    return Case("simulate_async", f"{algorithm}, g={g}, {options}", call, expected, within(0.0))


def descent(rng: random.Random) -> Case:
    """Draw proximal gradient descent on the pooled data, which four methods are with one full step of everybody."""
    clients, lr, rounds = samples(rng), rng.choice([0.125, 0.0625]), rng.choice([1, 4])
    weights = rng.choice(WEIGHTS)
    name = rng.choice(["FedAvg", "FedMid", "Scaffold", "MimeLite"])
    strength = 0.125 if name == "FedMid" else 0.0
    algorithm: Any = {
        "FedAvg": feddr.FedAvg(),
        "FedMid": feddr.FedMid(proximal="server"),
        "Scaffold": feddr.Scaffold(),
        "MimeLite": feddr.MimeLite(beta=0.0),
    }[name]
    sizes = np.array([len(c["y"]) for c in clients], float)
    counts: Any = {"uniform": np.ones(CLIENTS), "samples": sizes}[weights] if isinstance(weights, str) else weights
    shares = np.asarray(counts, float) / np.sum(counts)
    form: Any = rng.choice([np.asarray, np.ndarray.tolist, lambda a: a.astype(np.float32), lambda a: a.astype(np.int8)])

    def call() -> Any:
        given = [{key: form(a) for key, a in c.items()} for c in clients]
        g = prox.L1(strength) if strength else None
        where = feddr.Problem(squares, feddr.FederatedData.from_clients(given), np.zeros(FEATURES), g, weights)
        once = local.SGD(lr=lr, epochs=1, batch_size=None)
        settings: dict[str, Any] = {"local": once, "rounds": rounds, "precision": "float64"}
        return [engine(where, algorithm, **settings).params for engine in (feddr.simulate, feddr.reference)]

    def expected() -> Any:
        x, f = np.zeros(FEATURES), pooled(clients, shares)
        for _ in range(rounds):
            x = x - lr * f(x)[1]
            x = np.sign(x) * np.maximum(np.abs(x) - lr * strength, 0)
        return [x, x]

    return Case("descent", f"{name}, lr={lr}, rounds={rounds}, weights={weights}", call, expected, within(1e-10))


def solution(rng: random.Random) -> Case:
    """Draw a problem that FedDR solves to the end, beside proximal gradient descent in NumPy."""
    clients, (name, g, step) = samples(rng), rng.choice(SOLVED)

    def call() -> Any:
        where = feddr.Problem(squares, feddr.FederatedData.from_clients(clients), np.full(FEATURES, 0.5), g())
        exact = local.Accelerated(tol=1e-13)
        settings: dict[str, Any] = {"local": exact, "rounds": 400, "precision": "float64", "evaluate_every": 400}
        return feddr.simulate(where, feddr.FedDR(eta=0.5, alpha=1.0), **settings).params

    def expected() -> Any:
        x, f = np.full(FEATURES, 0.5), pooled(clients, np.full(CLIENTS, 1 / CLIENTS))
        for _ in range(20_000):
            x = step(x - 0.02 * f(x)[1], 0.02)
        return x

    def close(got: Any, wanted: Any) -> bool:
        """Where the solution is not unique, its value is."""
        f = pooled(clients, np.full(CLIENTS, 1 / CLIENTS))
        return bool(np.allclose(got, wanted, 1e-5, 1e-5) or abs(f(got)[0] - f(wanted)[0]) < 1e-7)

    return Case("solutions", f"{name} on {clients}", call, expected, close)


def _ball(x: Any, _: float) -> Any:
    return x / max(1.0, float(np.linalg.norm(x)) / 0.5)


SOLVED: list[tuple[str, Callable[[], Any], Callable[[Any, float], Any]]] = [
    ("least squares", lambda: None, lambda x, _: x),
    ("lasso", lambda: prox.L1(0.25), lambda x, t: np.sign(x) * np.maximum(np.abs(x) - 0.25 * t, 0)),
    ("ridge", lambda: prox.SquaredL2(0.5), lambda x, t: x / (1 + 0.5 * t)),
    ("bounds", lambda: prox.Box(-0.25, 0.25), lambda x, _: np.clip(x, -0.25, 0.25)),
    ("signs", prox.NonNegative, lambda x, _: np.maximum(x, 0)),
    ("a ball", lambda: prox.L2Ball(0.5), _ball),
]


def drawn(rng: random.Random) -> Case:
    """Draw a run."""
    return rng.choice([*[synchronous] * 6, *[asynchronous] * 2, *[descent] * 3, solution])(rng)
