"""What compression costs in a round: processor time of the compressors in relation to that of the round."""

import importlib
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from workloads import LARGE, LR, SEED, SMALL, Workload

import feddr
from feddr.compress import Compressor, Quantised, RandomK, Rounded, TopK
from feddr.engines.shared.state import Progress

UPLOADS: tuple[Compressor, ...] = (
    Quantised(4),
    Quantised(8),
    Quantised(2),
    Quantised(4, stochastic=True),
    Rounded("float16"),
    Rounded("bfloat16"),
    TopK(0.1),
    TopK(0.1, Quantised(4)),
    RandomK(0.1),
    RandomK(0.1, Quantised(4)),
)


def measure(quick: bool) -> list[dict[str, Any]]:
    """Return a record for each workload and compressor, by processor time, so that other work does not count."""
    records = []
    for workload in (SMALL, LARGE):
        problem = feddr.Problem.classification(feddr.models.mlp(workload.layers), workload.data(), weights="samples")
        for compressor in UPLOADS[:1] if quick else UPLOADS:
            records.append(_point(workload, problem, compressor, 6 if quick else 20))
            print(f"  encoding {records[-1]}", flush=True)
    return records


def table(records: Sequence[dict[str, Any]]) -> list[str]:
    """Return the lines of the table over workloads and compressors."""
    lines = [
        "| workload | upload | a round, ms | compressing its uploads, ms | share | ten more in a row, ms | share | "
        "encoding and decoding one, ms |",
        "|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    return lines + [
        f"| {r['workload']} | `{r['compressor']}` | {1e3 * r['round']:.1f} | {1e3 * r['compressing']:.2f} | "
        f"{100 * r['compressing'] / r['round']:.1f} % | {1e3 * r['row']:.2f} | {100 * r['row'] / r['round']:.1f} % | "
        f"{1e3 * r['message']:.2f} |"
        for r in records
    ]


def _point(workload: Workload, problem: feddr.Problem, compressor: Compressor, rounds: int) -> dict[str, Any]:
    """Return the medians over the rounds of a run, without the first, which compiles."""
    rules, executor = map(importlib.import_module, ("feddr.algorithms.feddr", "feddr.engines.shared.executor"))
    feedback, draw, spent = rules.feedback, executor.upload_draw, [0.0]

    def timed(call: Callable[..., Any]) -> Callable[..., Any]:
        def timing(*arguments: Any) -> Any:
            begin = time.thread_time()
            found = call(*arguments)
            spent[0] += time.thread_time() - begin
            return found

        return timing

    ends: list[tuple[float, float]] = []

    def note(_: Progress) -> None:
        ends.append((time.process_time(), spent[0]))

    rules.feedback, executor.upload_draw = timed(feedback), timed(draw)
    try:
        feddr.simulate(
            problem,
            feddr.FedDR(upload=compressor),
            local=feddr.local.SGD(lr=LR, epochs=workload.epochs, batch_size=workload.batch_size),
            sampling=feddr.sampling.Uniform(workload.sampled),
            rounds=rounds,
            evaluate_every=rounds + 1,
            seed=SEED,
            callback=note,
            progress=False,
        )
    finally:
        rules.feedback, executor.upload_draw = feedback, draw
    whole, part = np.median(np.diff(np.array(ends)[1:-1], axis=0), axis=0)  # the last round is evaluated
    rng = np.random.default_rng(SEED)
    target, counted = (
        feddr.tree.map(lambda leaf: rng.normal(size=leaf.shape).astype(np.float32), problem.init) for _ in range(2)
    )
    row = _median(lambda draw: feedback(compressor, target, counted, draw))
    message = _median(lambda draw: compressor.decode(compressor.encode(target, draw), target))
    return {
        "workload": workload.name,
        "compressor": repr(compressor),
        "round": float(whole),
        "compressing": float(part),
        "row": workload.sampled * row,
        "message": message,
    }


def _median(call: Callable[[int], Any]) -> float:
    """Return the processor time of a call, the median of fifty in a row."""
    times = []
    for draw in range(50):
        begin = time.thread_time()
        call(draw)
        times.append(time.thread_time() - begin)
    return float(np.median(times))


if __name__ == "__main__":
    print("\n".join(table(measure(quick=False))))
