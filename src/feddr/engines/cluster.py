"""The simulator on a Ray cluster: the same rounds as ``simulate``, bit for bit, over processes and machines."""

import functools
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from feddr.algorithms import Algorithm
from feddr.algorithms.algorithm import ProblemLike
from feddr.checkpoint.manager import Checkpoint
from feddr.early_stopping import StopWhen
from feddr.engines.clock.settings import Clock
from feddr.engines.result import Result
from feddr.engines.shared.client_store import BUDGET
from feddr.engines.shared.compiled_clients import mean_work
from feddr.engines.shared.options import EngineOptions, OnBadClient
from feddr.engines.shared.pieces import Layout
from feddr.engines.shared.progress import ShowProgress, speaks
from feddr.engines.shared.rounds import RoundsRequest, play
from feddr.engines.shared.shards import SHARDS
from feddr.engines.shared.state import Callback
from feddr.engines.workers.connection import connected
from feddr.engines.workers.fleet import Fleet, actor_options
from feddr.engines.workers.part import part_of
from feddr.engines.workers.placement import assign_shards, loads
from feddr.engines.workers.run import ClusterRun
from feddr.engines.workers.worker import Duty
from feddr.local import LocalSolver
from feddr.metrics.metric import Metric, MetricFunction
from feddr.problem import Problem
from feddr.sampling import Full, Sampling
from feddr.tree import Tree
from feddr.validation import scalars


def simulate_cluster(
    problem: ProblemLike,
    algorithm: Algorithm,
    *,
    local: LocalSolver,
    rounds: int,
    address: str | None = None,
    workers: int | None = None,
    threads: int | None = None,
    resources: Mapping[str, float] | None = None,
    sampling: Sampling | None = None,
    init: Tree | None = None,
    seed: int = 0,
    precision: str = "float32",
    evaluate_every: int = 10,
    personal: bool = False,
    metrics: Sequence[str | Metric | MetricFunction] = (),
    per_client: bool = False,
    stop_when: StopWhen | str | None = None,
    client_memory: int = BUDGET,
    callback: Callback | None = None,
    certify: bool = False,
    clock: Clock | None = None,
    on_bad_client: OnBadClient = "stop",
    checkpoint: Checkpoint | str | Path | None = None,
    progress: ShowProgress = None,
) -> Result:
    """Run an algorithm as ``simulate`` does, on workers of a Ray cluster; the result has the same bits.

    Each worker owns shards of the clients: their samples and their states stay with it. In a round it is sent the
    message once, and sends sums over its shards. A worker that dies is replaced, and what it had computed since the
    last checkpoint is computed again. docs/CLUSTER.md says what it costs and when it pays.

    Parameters
    ----------
    problem
        What to minimise; a problem of PyTorch's is computed in PyTorch, one client after the other in each worker.
    address
        ``"auto"``, ``"host:6379"``, ``"ray://host:10001"``, or None or ``"local"`` for a Ray that is started here. One
        that this process is connected to already is used, and left open.
    workers
        How many, at most 64; one for each machine of the cluster by default, and with PyTorch one for each core.
    threads
        Clients that a worker computes at a time, and the cores that it takes: by default those of a machine.
    resources
        What a worker takes beside its cores, such as ``{"gpu": 0.25}``.
    client_memory
        Bytes of the clients' states that each worker keeps in memory.
    certify
        As in ``simulate``: each worker measures its clients and sends sums, and two numbers for each of them. A problem
        of PyTorch's needs ``curvature``.
    checkpoint
        As in ``simulate``, which can resume from what is saved here, and the other way round.

    Returns
    -------
    Result
        As from ``simulate``; ``settings["cluster"]`` says which worker had which shards.

    Raises
    ------
    ValueError
        Where there is no cluster at the address, or its machines have other versions; else as ``simulate``.
    RuntimeError
        Where a worker dies again and again.

    Examples
    --------
    >>> import numpy as np, feddr
    >>> data = feddr.FederatedData.from_clients([{"x": np.eye(2), "y": np.ones(2)}] * 2)
    >>> problem = feddr.Problem.regression(feddr.models.linear(2), data)
    >>> arguments = {"local": feddr.local.SGD(lr=0.1), "rounds": 2, "seed": 1}
    >>> here = feddr.simulate(problem, feddr.FedDR(eta=1.0), **arguments)
    >>> there = feddr.simulate_cluster(problem, feddr.FedDR(eta=1.0), workers=2, **arguments)  # doctest: +SKIP
    >>> bool(np.all(there.params["weight"] == here.params["weight"]))  # doctest: +SKIP
    True
    """
    options = EngineOptions(
        *(Full() if sampling is None else sampling, seed, precision, evaluate_every, personal, client_memory),
        *(on_bad_client, speaks(progress), metrics, per_client, stop_when),
    )
    workers = None if workers is None else _at_most_shards(scalars.whole("workers", workers, 1))
    threads = None if threads is None else scalars.whole("threads", threads, 1)

    @contextmanager
    def there(problem: Any, algorithm: Algorithm) -> Iterator[ClusterRun]:
        with connected(address, (workers or 1) * (threads or 1)) as ray:
            count, each = _sizes(ray, workers, threads, plain=not isinstance(problem, Problem))
            duty = Duty(algorithm, local, options, Layout.of(problem.data), mean_work(problem, local), certify)
            fleet = Fleet(ray, duty, functools.partial(part_of, problem), each, actor_options(each, resources))
            try:
                load = loads(problem, options.sampling.probabilities(problem.data.num_clients))
                shards = assign_shards(load, [1.0] * count)
                if options.verbose and len(shards) < count:
                    print(_idle(len(shards), count), file=sys.stderr)
                fleet.start(shards)
                run = ClusterRun(problem, algorithm, local, options, fleet, load, grows=workers is None)
                yield run
                run.gather()
            finally:
                fleet.close()

    request = RoundsRequest(rounds, init, callback, certify, Clock.of(clock), Checkpoint.of(checkpoint), progress)
    return play(problem, algorithm, local, options, request, there)


def _at_most_shards(workers: int) -> int:
    if workers > SHARDS:
        raise ValueError(
            f"workers must be at most {SHARDS}, the number of shards that clients are divided into, got {workers}; "
            "give each of fewer workers more threads."
        )
    return workers


def _idle(workers: int, room: int) -> str:
    """Say why there are fewer workers than there is room for."""
    return (
        f"simulate_cluster: {workers} workers, with room for {room}: each has a shard at least, and of the {SHARDS} "
        f"shards {workers} have clients that take part. Workers with more threads use more cores."
    )


def _sizes(ray: Any, workers: int | None, threads: int | None, plain: bool) -> tuple[int, int]:
    """Return how many workers there are, and how many threads each has."""
    machines = [int(node["Resources"].get("CPU", 0)) for node in ray.nodes() if node["Alive"]]
    cores = [count for count in machines if count] or [1]
    if threads is None:
        threads = 1 if plain else min(cores) if workers is None else max(sum(cores) // workers, 1)
    room = sum(count // threads for count in cores)
    workers = max(room, 1) if workers is None else workers
    if workers > room:
        raise ValueError(
            f"Workers need cores of their own, got {workers} of {threads} threads on machines with {cores} cores; take "
            "fewer workers or threads, or let more machines join."
        )
    return workers, threads
