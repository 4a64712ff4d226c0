"""feddr itself, through its public face: sampling, aggregation, bookkeeping, and evaluation every 10 rounds."""

import os
import sys

import jax
import measure
import numpy as np

import feddr
from feddr.data import ClientSamples
from feddr.engines.shared.state import Progress
from feddr.xla import compilation_cache

work = measure.load(sys.argv[1])
part = ClientSamples({"x": work.x, "y": work.y}, work.offsets)
problem = feddr.Problem.classification(
    feddr.models.mlp(work.layers), feddr.FederatedData(part), weights="samples", seed=0
)
algorithm = feddr.FedAvg() if work.algorithm == "FedAvg" else feddr.FedDR(eta=10.0, alpha=1.5)
clock, counted = measure.Clock(work), [0]


def after_round(progress: Progress) -> bool:
    """Count the steps of the round; round 0 is the evaluation of the start."""
    if progress.round == 0:
        return False
    steps, counted[0] = progress.state.local_steps - counted[0], progress.state.local_steps
    stop = clock.tick(steps, work.cohorts.shape[1])
    if clock.loss is None:
        xbar = progress.state.server.xbar
        clock.loss = work.loss([(layer["weight"], layer["bias"]) for layer in xbar.values()])
        clock.resume()
    return stop


feddr.simulate(
    problem,
    algorithm,
    local=feddr.local.SGD(lr=work.lr, epochs=work.epochs, batch_size=work.batch_size),
    sampling=feddr.sampling.Uniform(work.cohorts.shape[1]),
    rounds=1_000_000,
    seed=0,
    threads=work.threads,
    callback=after_round,
)
kept = "off" if os.environ.get(compilation_cache.SWITCH) == "off" else "on"
clock.report(
    f"simulate, {work.threads} threads, evaluation every 10 rounds, compilation cache {kept}",
    {"feddr": feddr.__version__, "jax": jax.__version__, "numpy": np.__version__},
)
