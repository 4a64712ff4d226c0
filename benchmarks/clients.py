"""feddr alone in the number of clients: a round must not depend on those who take no part in it."""

import json
import sys
import time
from collections.abc import Sequence
from typing import Any

from runners import alone

SEEN = 500


def measure(quick: bool) -> list[dict[str, Any]]:
    """FedDR on 10^2 to 10^6 clients, 3 samples each made on demand, 100 in a round, each size in its own process."""
    records = []
    for power in (2, 3, 6) if quick else (2, 3, 4, 5, 6):
        found = alone(__file__, str(10**power), "20" if quick else "100")
        records.append({"clients": 10**power, **found})
        print(f"  clients {records[-1]}", flush=True)
    return records


def table(records: Sequence[dict[str, Any]]) -> list[str]:
    """Return the lines of the table over the number of clients, with ratios to a thousand of them."""
    lines = [
        "| clients | a round, ms: median, fastest | to 1,000 clients | clients seen | resident then, MB | to 1,000 |",
        "|---:|---:|---:|---:|---:|---:|",
    ]
    base = next((r for r in records if r["clients"] == 1000 and "error" not in r), None)
    for r in records:
        if "error" in r:
            lines.append(f"| {r['clients']:,} | {r['error']} | | | | |")
            continue
        time_ratio = f"{r['round_seconds'] / base['round_seconds']:.2f}" if base else ""
        memory_ratio = f"{r['memory_mb'] / base['memory_mb']:.2f}" if base else ""
        lines.append(
            f"| {r['clients']:,} | {1000 * r['round_seconds']:.1f}, {1000 * r['fastest_round_seconds']:.1f} | "
            f"{time_ratio} | {r['seen']:,} | {r['memory_mb']:.0f} | {memory_ratio} |"
        )
    return lines


def _point(num_clients: int, rounds: int) -> dict[str, Any]:
    import numpy as np
    from peers.measure import memory

    import feddr
    from feddr.engines.shared.state import Progress

    samples, features, classes, sampled = 3, 10, 4, 100

    def make(client: int) -> feddr.data.Samples:
        rng = np.random.default_rng(client)
        x = rng.standard_normal((samples, features), dtype=np.float32)
        return {"x": x, "y": rng.integers(0, classes, samples, dtype=np.int32)}

    data = feddr.FederatedData.generated(make, np.full(num_clients, samples), panel=100)
    ends: list[float] = []
    seen: tuple[int, float] = 0, 0.0

    def after_round(progress: Progress) -> None:
        nonlocal seen
        ends.append(time.perf_counter())
        if seen[0] < SEEN:  # memory is compared when about equally many clients have a state
            seen = len(progress.state.clients), memory("VmRSS")

    feddr.simulate(
        feddr.Problem.classification(feddr.models.mlp([features, 16, classes]), data),
        feddr.FedDR(eta=1.0, alpha=1.0),
        local=feddr.local.SGD(lr=0.01, epochs=1, batch_size=10),
        sampling=feddr.sampling.Uniform(sampled),
        rounds=rounds,
        evaluate_every=rounds,
        callback=after_round,
        threads=2,
    )
    # The start and the end are evaluated and left out.
    times = np.diff(ends)[2:-1]
    return {
        "round_seconds": float(np.median(times)),
        "fastest_round_seconds": float(np.min(times)),
        "seen": seen[0],
        "memory_mb": seen[1],
    }


if __name__ == "__main__":
    print(json.dumps(_point(int(sys.argv[1]), int(sys.argv[2]))))
