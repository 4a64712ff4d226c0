"""Workers of Ray beside threads: rounds, bytes between driver and workers, what a round costs, the driver's memory.

python benchmarks/bench.py --only cluster    # under five minutes on an idle machine with two cores

Two workers of one thread each are compared with two threads of ``simulate`` where everybody takes part, so that both
workers have the same to do. Of 20 clients that are drawn at random two workers have 11.8 and 8.2 on average, and the
round lasts as long as the larger part: no more than 0.85 of the speed of threads can be had. The point ``mlp, drawn``
is that case, and the column ``most`` says how much the draws of its rounds allow.
"""

import json
import os
import sys
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from runners import alone

WORKERS = (1, 2, 3, 4)
"""For bytes; the speed is that of two workers with a thread each beside two threads."""

AT_LEAST = {"mlp": 0.85, "cnn": 0.9, "torch": 1.7}
"""What feddr aims at: the speed of two workers over that of two threads, for PyTorch over that of the plain loop."""


class Point(NamedTuple):
    """A case: how many clients with how many samples each, and how many of them are drawn; all where that is 0."""

    clients: int
    samples: int
    drawn: int
    rounds: int


TORCH = "torchax"
"""The environment of the point in PyTorch: Ray and PyTorch beside feddr."""

POINTS = {
    "mlp": Point(clients=40, samples=100, drawn=0, rounds=20),
    "mlp, drawn": Point(clients=200, samples=100, drawn=20, rounds=20),
    "cnn": Point(clients=8, samples=100, drawn=0, rounds=7),
    "torch": Point(clients=8, samples=100, drawn=0, rounds=7),
    "tiny": Point(clients=1000, samples=3, drawn=100, rounds=40),
    "memory 10^3": Point(clients=10**3, samples=3, drawn=100, rounds=8),
    "memory 10^5": Point(clients=10**5, samples=3, drawn=100, rounds=8),
    "memory 10^6": Point(clients=10**6, samples=3, drawn=100, rounds=8),
}


def measure(quick: bool) -> list[dict[str, Any]]:
    """Return a record for each point: 784x128x26, the CNN, PyTorch, tiny clients, and the driver over the clients."""
    records = []
    for name, point in POINTS.items():
        if quick and name in ("mlp, drawn", "memory 10^5"):
            continue
        rounds = min(point.rounds, 6) if quick else point.rounds
        found = alone(__file__, name, str(rounds), environment=TORCH if name == "torch" else "feddr")
        records.append({"what": name, "clients": point.clients, **found})
        print(f"  cluster {records[-1]}", flush=True)
    return records


def table(records: Sequence[dict[str, Any]]) -> list[str]:
    """Return the lines of the table."""
    names = (
        *("run", "clients", "parameters", "2 threads or loop, ms a round", "2 workers, ms", "speed", "most"),
        *("MB a round", "of 12 bytes a number and worker", "driver, MB"),
    )
    lines = [f"| {' | '.join(names)} |", "|---" + "|---:" * (len(names) - 1) + "|"]
    for r in records:
        first = [r["what"], f"{r['clients']:,}"]
        if "error" in r:
            cells = [*first, r["error"], *[""] * (len(names) - 3)]
        else:
            here, there = r.get("here"), r["there"]
            sent = ", ".join(f"{number / 1e6:.3g}" for number in r["bytes"].values())
            share = ", ".join(f"{n / (int(w) * 12 * r['parameters']):.2f}" for w, n in r["bytes"].items())
            speed = ["", f"{1000 * there:.1f}", "", ""]
            if here is not None:
                most = f"{r['most']:.2f}" if "most" in r else ""
                speed = [f"{1000 * here:.1f}", f"{1000 * there:.1f}", _verdict(r["what"], here / there), most]
            cells = [*first, f"{r['parameters']:,}", *speed, sent, share, f"{r['memory_mb']:.0f}"]
        lines.append(f"| {' | '.join(cells)} |")
    lines += ["", f"MB a round of the mlp are for {', '.join(map(str, WORKERS))} workers, else for two."]
    tiny = next((r for r in records if r["what"] == "tiny" and "here" in r), None)
    if tiny is not None:
        lines += [f"Asking and answering two workers took {1000 * (tiny['there'] - tiny['here']):.1f} ms a round."]
    different = [r["what"] for r in records if not r.get("same_bits", True)]
    return [*lines, *([f"**Other bits than without a cluster: {', '.join(different)}.**"] if different else [])]


def _verdict(what: str, ratio: float) -> str:
    least = AT_LEAST.get(what)
    verdict = "" if least is None else f" ({'at least' if ratio >= least else '**below**'} {least:g})"
    return f"{ratio:.2f}{verdict}"


def _problem(what: str, point: Point) -> Any:
    """Return the problem of a point; samples are made when they are needed."""
    import numpy as np

    import feddr

    features, classes = (784, 26) if point.samples > 3 else (10, 4)

    def make(client: int) -> dict[str, Any]:
        rng = np.random.default_rng(client)
        x = rng.standard_normal((point.samples, features), dtype=np.float32)
        return {"x": x, "y": rng.integers(0, classes, point.samples, dtype=np.int32)}

    if what == "torch":
        return _torch_problem([make(client) for client in range(point.clients)], classes)
    data = feddr.FederatedData.generated(make, np.full(point.clients, point.samples), panel=min(point.clients, 100))
    if what == "cnn":
        model = feddr.models.cnn(classes)
    else:
        model = feddr.models.mlp([784, 128, 26] if point.samples > 3 else [features, 16, classes])
    return feddr.Problem.classification(model, data)


def _torch_problem(clients: list[Any], classes: int) -> Any:
    """Return a small convolutional network in PyTorch, on one thread in this process as in each worker."""
    import torch
    from torch import nn

    import feddr
    from feddr.torch import TorchProblem

    torch.set_num_threads(1)
    torch.manual_seed(0)
    for client in clients:
        client["x"] = client["x"].reshape(-1, 1, 28, 28)
    layers = [nn.Conv2d(1, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 5), nn.ReLU(), nn.MaxPool2d(2)]
    module = nn.Sequential(*layers, nn.Flatten(), nn.Linear(512, classes))
    return TorchProblem(module, feddr.FederatedData.from_clients(clients))


def _point(what: str, rounds: int) -> dict[str, Any]:
    import numpy as np
    import ray
    from peers.measure import memory

    import feddr
    from feddr import tree
    from feddr.engines.shared.randomness import sampling_rng

    point = POINTS[what]
    problem = _problem(what, point)
    scheme = feddr.sampling.Uniform(point.drawn) if point.drawn else feddr.sampling.Full()
    ends: list[float] = []
    resident = 0.0

    def after_round(progress: Any) -> None:
        nonlocal resident
        del progress
        ends.append(time.perf_counter())
        resident = memory("VmRSS")

    def run(engine: Any, **more: Any) -> tuple[float, Any]:
        ends.clear()
        result = engine(
            problem,
            feddr.FedDR(eta=1.0, alpha=1.0),
            local=feddr.local.SGD(lr=0.01, epochs=2 if point.samples > 3 else 1, batch_size=10),
            sampling=scheme,
            rounds=more.pop("rounds", rounds),
            evaluate_every=10**6,
            callback=after_round,
            progress=False,
            **more,
        )
        return float(np.median(np.diff(ends)[2:-1])), result

    # Ray gives workers niceness 15, with which they wait for all other work on the machine; threads do not.
    os.environ.setdefault("RAY_worker_niceness", "0")
    record: dict[str, Any] = {"parameters": tree.size(problem.init), "active": point.drawn or point.clients}
    ray.init("local", num_cpus=max(WORKERS), include_dashboard=False, object_store_memory=200_000_000)
    try:
        record["there"], result = run(feddr.simulate_cluster, workers=2, threads=1)
        record["memory_mb"] = resident
        record["bytes"] = {2: result.settings["cluster"]["bytes_a_round"]}
        if not what.startswith("memory"):
            plain = what == "torch"
            record["here"], expected = run(feddr.reference) if plain else run(feddr.simulate, threads=2)
            pairs = zip(*map(tree.leaves, (result.params, expected.params)), strict=True)
            record["same_bits"] = plain or all(np.array_equal(a, b) for a, b in pairs)
        for workers in WORKERS if what == "mlp" else ():
            if workers != 2:
                _, result = run(feddr.simulate_cluster, workers=workers, threads=1, rounds=5)
                record["bytes"][workers] = result.settings["cluster"]["bytes_a_round"]
        record["bytes"] = dict(sorted(record["bytes"].items()))
    finally:
        ray.shutdown()
    if point.drawn:
        draws = [scheme.draw(point.clients, sampling_rng(0, k)) for k in range(1, rounds + 1)]
        larger = [max(np.sum(draw < point.clients // 2), np.sum(draw >= point.clients // 2)) for draw in draws]
        record["most"] = float(np.mean([len(draw) / 2 / most for draw, most in zip(draws, larger, strict=True)]))
    return record


if __name__ == "__main__":
    print(json.dumps(_point(sys.argv[1], int(sys.argv[2]))))
