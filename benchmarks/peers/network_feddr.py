"""The networks of ``networks.py`` in feddr's simulator, ready models of its own or PyTorch modules.

python network_feddr.py NETWORK LAUNCHED SIDE THREADS ROUNDS
"""

import itertools
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

NAME, LAUNCHED, SIDE, THREADS, ROUNDS = sys.argv[1], float(sys.argv[2]), sys.argv[3], int(sys.argv[4]), int(sys.argv[5])
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:THREADS])
sys.path.insert(0, str(Path(__file__).parents[2] / "src"))  # environments of peers do not have feddr

import jax  # noqa: E402
import numpy as np  # noqa: E402
from jax.interpreters import partial_eval  # noqa: E402

import feddr  # noqa: E402
from feddr.engines.shared.evaluation import Evaluator  # noqa: E402
from feddr.engines.shared.state import Progress  # noqa: E402
from feddr.xla import dense as layer  # noqa: E402
from feddr.xla.thread_pool import ThreadPool  # noqa: E402

CLIENTS, SAMPLES, EPOCHS, BATCH, LR = 4, 40, 5, 10, 0.01
TOKENS, LENGTH = 80, 40


def model() -> Any:
    if SIDE == "from_torch":
        import network_torch

        return feddr.models.from_torch(network_torch.network(NAME), samples()[0]["x"][:1])
    if NAME == "cnn":
        return feddr.models.cnn(62)
    if NAME == "lstm":
        return feddr.models.lstm(TOKENS, 8, (128, 128))
    if NAME == "transformer":
        return feddr.models.transformer(TOKENS, LENGTH, width=64, heads=4, layers=2)
    return feddr.models.mlp([int(width) for width in NAME.split("x")])


def samples() -> list[dict[str, Any]]:
    """The samples of network_torch.py, whose images feddr's own models take with the channels last."""
    rng, count = np.random.default_rng(0), CLIENTS * SAMPLES
    if NAME in ("lstm", "transformer"):
        x: Any = rng.integers(0, TOKENS, (count, LENGTH))
        y = rng.integers(0, TOKENS, count)
    else:
        inputs, classes = ((1, 28, 28), 62) if NAME == "cnn" else ((int(NAME.split("x")[0]),), int(NAME.split("x")[-1]))
        x, y = rng.random((count, *inputs), dtype=np.float32), rng.integers(0, classes, count)
        if NAME == "cnn" and SIDE != "from_torch":
            x = np.moveaxis(x, 1, -1)
    return [{"x": x[i : i + SAMPLES], "y": y[i : i + SAMPLES]} for i in range(0, count, SAMPLES)]


def flops(jaxpr: Any) -> float:
    """Return the floating-point operations of all products and convolutions."""
    total = 0.0
    for equation in jaxpr.eqns:
        name, settings = equation.primitive.name, equation.params
        times = settings["length"] if name == "scan" else 1
        total += times * sum(map(flops, jax.extend.core.jaxprs_in_params(settings)))
        shapes = [variable.aval.shape for variable in equation.invars]
        out = float(np.prod(equation.outvars[0].aval.shape)) if equation.outvars else 0.0
        if name == "dot_general":
            total += 2 * out * float(np.prod([shapes[0][axis] for axis in settings["dimension_numbers"][0][0]]))
        if name == "conv_general_dilated":
            outputs = settings["dimension_numbers"].rhs_spec[0]
            total += 2 * out * float(np.prod(shapes[1])) / shapes[1][outputs]
    return total


def main() -> None:
    problem = feddr.Problem.classification(model(), feddr.FederatedData.from_clients(samples()))
    ends: list[tuple[float, float, int]] = []

    def after_round(progress: Progress) -> None:
        if progress.round == 1:
            first.append(time.time() - LAUNCHED)
        ends.append((time.process_time(), time.perf_counter(), progress.state.local_steps))

    first: list[float] = []
    result = feddr.simulate(
        problem,
        feddr.FedAvg(),
        local=feddr.local.SGD(lr=LR, epochs=EPOCHS, batch_size=BATCH),
        rounds=ROUNDS + 2,
        evaluate_every=ROUNDS + 2,
        seed=0,
        threads=THREADS,
        callback=after_round,
    )
    clock = 0 if THREADS == 1 else 1
    rounds = [(b[clock] - a[clock], b[2] - a[2]) for a, b in itertools.pairwise(ends[2:-1])]  # the last one evaluates
    seconds, steps = min(rounds)
    with ThreadPool(THREADS) as pool:
        evaluator = Evaluator(problem, np.float32, pool)
        evaluations = []
        for _ in range(3):
            begin = (time.process_time(), time.perf_counter())[clock]
            evaluator.at(result.params)
            evaluations.append((time.process_time(), time.perf_counter())[clock] - begin)
    batch = {name: array[:BATCH] for name, array in problem.data.train.samples.items()}
    start = jax.tree.map(lambda leaf: np.asarray(leaf, np.float32), problem.init)
    layer.FEW_ROWS = layer.SOME_ROWS = 0  # gradients in weights as products, which are counted
    step = jax.make_jaxpr(jax.grad(lambda params: problem.loss(params, batch).sum()))(start)
    line = {
        "steps_per_second": steps / seconds,
        "first_round": first[0],
        "evaluation_over_work": min(evaluations) / (10 * seconds),
        "flops": flops(partial_eval.dce_jaxpr(step.jaxpr, [True] * len(step.jaxpr.outvars))[0]),
    }
    print(json.dumps(line), flush=True)


main()
