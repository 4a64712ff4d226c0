"""Workers of Ray beside threads: rounds, bytes between driver and workers, and the driver's memory."""

import json
import sys
import time
from collections.abc import Sequence
from typing import Any

from runners import alone

WORKERS = (1, 2, 3, 4)
"""For bytes; the speed is that of two workers with a thread each beside two threads."""


def measure(quick: bool) -> list[dict[str, Any]]:
    """Two models on two workers, the overhead of a round with tiny clients, and the driver over the clients."""
    rounds = "6" if quick else "30"
    points = [("mlp", "200", rounds), ("cnn", "60", "4" if quick else "10"), ("tiny", "1000", rounds)]
    points += [("memory", str(10**power), "10") for power in ((3, 6) if quick else (3, 4, 5, 6))]
    records = []
    for point in points:
        records.append({"what": point[0], "clients": int(point[1]), **alone(__file__, *point)})
        print(f"  cluster {records[-1]}", flush=True)
    return records


def table(records: Sequence[dict[str, Any]]) -> list[str]:
    """Return the lines of the table."""
    names = (
        "run",
        "clients",
        "parameters",
        "2 threads, ms a round",
        "2 workers, ms",
        "speed",
        "MB a round",
        "driver, MB",
    )
    lines = [f"| {' | '.join(names)} |", "|---" + "|---:" * (len(names) - 1) + "|"]
    for r in records:
        first = [r["what"], f"{r['clients']:,}"]
        if "error" in r:
            cells = [*first, r["error"], *[""] * 5]
        else:
            here, there = r.get("here"), r["there"]
            sent = ", ".join(f"{number / 1e6:.3g}" for number in r["bytes"])
            speed = ["", f"{1000 * there:.1f}", ""]
            if here is not None:
                speed = [f"{1000 * here:.1f}", f"{1000 * there:.1f}", f"{here / there:.2f}"]
            cells = [*first, f"{r['parameters']:,}", *speed, sent, f"{r['memory_mb']:.0f}"]
        lines.append(f"| {' | '.join(cells)} |")
    return [*lines, "", f"MB a round of the mlp are for {', '.join(map(str, WORKERS))} workers, else for two."]


def _point(what: str, clients: int, rounds: int) -> dict[str, Any]:
    import numpy as np
    import ray
    from peers.measure import memory

    import feddr
    from feddr import tree

    features, classes, samples = (784, 26, 100) if what in ("mlp", "cnn") else (10, 4, 3)
    models = {"mlp": feddr.models.mlp([784, 128, 26]), "cnn": feddr.models.cnn(26)}
    model = models.get(what, feddr.models.mlp([features, 16, classes]))

    def make(client: int) -> dict[str, Any]:
        rng = np.random.default_rng(client)
        x = rng.standard_normal((samples, features), dtype=np.float32)
        return {"x": x, "y": rng.integers(0, classes, samples, dtype=np.int32)}

    data = feddr.FederatedData.generated(make, np.full(clients, samples), panel=100)
    problem = feddr.Problem.classification(model, data)
    active = 100 if samples == 3 else 20
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
            local=feddr.local.SGD(lr=0.01, epochs=2 if samples > 3 else 1, batch_size=10),
            sampling=feddr.sampling.Uniform(active),
            rounds=rounds,
            evaluate_every=rounds,
            callback=after_round,
            progress=False,
            verbose=False,
            **more,
        )
        return float(np.median(np.diff(ends)[2:-1])), result

    found: dict[str, Any] = {"parameters": tree.size(problem.init), "active": active}
    ray.init("local", num_cpus=max(WORKERS), include_dashboard=False, object_store_memory=200_000_000)
    try:
        found["there"], result = run(feddr.simulate_cluster, workers=2, threads=1)
        found["memory_mb"] = resident
        if what != "memory":
            found["here"], expected = run(feddr.simulate, threads=2)
            same = [
                np.array_equal(a, b) for a, b in zip(*map(tree.leaves, (result.params, expected.params)), strict=True)
            ]
            found["same_bits"] = all(same)
        found["bytes"] = []
        for workers in WORKERS if what == "mlp" else (2,):
            _, result = run(feddr.simulate_cluster, workers=workers, threads=1)
            found["bytes"].append(result.settings["cluster"]["bytes_a_round"])
    finally:
        ray.shutdown()
    return found


if __name__ == "__main__":
    print(json.dumps(_point(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))))
