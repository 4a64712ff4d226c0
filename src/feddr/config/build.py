"""Builders: from a checked config to the problem, the algorithms and the call of an engine."""

import dataclasses
import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from feddr.config.components import Component, ConfigError, target
from feddr.config.schema import Config

if TYPE_CHECKING:
    from feddr.algorithms import Algorithm
    from feddr.checkpoint import Checkpoint
    from feddr.data import FederatedData
    from feddr.engines.clock.settings import Clock
    from feddr.engines.result import Result
    from feddr.engines.shared.state import Callback
    from feddr.local import LocalSolver
    from feddr.problem import Problem
    from feddr.sampling import Sampling


class ClusterArguments(NamedTuple):
    """Where the clients of synchronous methods compute: the address of a Ray cluster, and how many workers.

    Examples
    --------
    >>> ClusterArguments("local", workers=2).address
    'local'
    """

    address: str
    workers: int | None = None


class RunArguments(NamedTuple):
    """What ``feddr.simulate`` needs for one method.

    Examples
    --------
    >>> import feddr
    >>> run = RunArguments("mine", feddr.FedAvg(), feddr.local.SGD(lr=0.1), feddr.sampling.Full())
    >>> run.label, run.sampling
    ('mine', Full())
    """

    label: str
    algorithm: "Algorithm"
    local: "LocalSolver"
    sampling: "Sampling"


def build(config: Config) -> "tuple[Problem, tuple[RunArguments, ...]]":
    """Return the problem and the runs of a config, checked against each other.

    Raises
    ------
    ConfigError
        With the part that refuses its arguments, or that does not go with the others.

    Examples
    --------
    >>> import feddr
    >>> config = feddr.config.parse(feddr.config.EXAMPLE)
    >>> problem, runs = build(config)
    >>> problem.data.num_clients, runs[0].label
    (3, 'FedDR')
    """
    from feddr.engines.shared.options import EngineOptions

    # What is cheap comes first: a wrong step size is refused before the data are made.
    runs = tuple(
        RunArguments(
            method.label,
            make("algorithm", method.algorithm, method.label),
            make("local", method.local or config.local),
            make("sampling", method.sampling or config.sampling),
        )
        for method in config.algorithms
    )
    clock = build_clock(config)
    problem = _problem(config)
    n = problem.data.num_clients
    if config.concurrency is not None and config.concurrency > n:
        raise ConfigError(f"concurrency must be at most the number of clients, {n}, got {config.concurrency}.")
    for run in runs:
        try:
            EngineOptions(run.sampling, on_bad_client=config.on_bad_client).check(run.algorithm, problem)
            if clock is not None:
                clock.check(run.algorithm, n)
        except ValueError as error:
            raise ConfigError(f"algorithm {run.label}: {error}") from None
    return problem, runs


def build_clock(config: Config) -> "Clock | None":
    """Return the virtual time of the runs of a config; None without any.

    Examples
    --------
    >>> import feddr
    >>> config = feddr.config.parse(feddr.config.EXAMPLE)
    >>> build_clock(config) is None
    True
    """
    from feddr.engines.clock.settings import Clock

    if config.engine != "clock":
        return None
    delays = make("delays", config.delays or Component("Fixed"))
    try:
        return Clock(delays, config.deadline)
    except ValueError as error:
        raise ConfigError(str(error)) from None


def length(config: Config, run: RunArguments) -> int:
    """Return how many rounds a method of a config makes, or updates of the server where it is asynchronous.

    Examples
    --------
    >>> import feddr
    >>> config = feddr.config.parse(feddr.config.EXAMPLE)
    >>> _, runs = build(config)
    >>> length(config, runs[0])
    3
    """
    from feddr.algorithms import Asynchronous

    return -(-config.updates // run.algorithm.buffer) if isinstance(run.algorithm, Asynchronous) else config.rounds


def perform(
    config: Config,
    problem: "Problem",
    run: RunArguments,
    *,
    threads: int | None = None,
    cluster: ClusterArguments | None = None,
    callback: "Callback | None" = None,
    checkpoint: "Checkpoint | None" = None,
    verbose: bool = False,
) -> "Result":
    """Run one method of a config on its problem, and return what came of it.

    Parameters
    ----------
    problem, run
        From ``build``.
    cluster
        The Ray cluster of ``feddr.simulate_cluster``, None for this machine. Asynchronous methods are run here.
    threads, callback, checkpoint
        As in ``feddr.simulate``.
    verbose
        Whether to print how step sizes that are "auto" were chosen, and why a run ended early.

    Examples
    --------
    >>> import feddr
    >>> config = feddr.config.parse(feddr.config.EXAMPLE)
    >>> problem, runs = build(config)
    >>> perform(config, problem, runs[0]).history.last.round
    3
    """
    from feddr.algorithms import Asynchronous, FedDR
    from feddr.engines.asynchronous import simulate_async
    from feddr.engines.cluster import simulate_cluster
    from feddr.engines.simulate import simulate

    shared: dict[str, Any] = {
        "local": run.local,
        "seed": config.seed,
        "precision": config.precision,
        "personal": config.personal,
        "metrics": config.metrics,
        "per_client": config.per_client,
        "stop_when": config.stop_when,
        "threads": threads,
        "callback": callback,
        "clock": build_clock(config),
        "on_bad_client": config.on_bad_client,
        "checkpoint": checkpoint,
        "progress": "words" if verbose else False,  # who calls this shows what it likes by the callback
    }
    if isinstance(run.algorithm, Asynchronous):
        buffer = run.algorithm.buffer
        if shared["clock"] is not None:  # a deadline is for the methods with rounds beside it
            shared["clock"] = dataclasses.replace(shared["clock"], deadline=None)
        return simulate_async(
            problem,
            run.algorithm,
            updates=length(config, run),
            concurrency=config.concurrency,
            evaluate_every=max(1, config.evaluate_every_updates // buffer),
            **shared,
        )
    engine = simulate
    if cluster is not None:
        engine = functools.partial(simulate_cluster, address=cluster.address, workers=cluster.workers)
    return engine(
        problem,
        run.algorithm,
        sampling=run.sampling,
        rounds=length(config, run),
        evaluate_every=config.evaluate_every,
        certify=config.certify and isinstance(run.algorithm, FedDR),
        **shared,
    )


def _problem(config: Config) -> "Problem":
    import jax

    from feddr.problem import Problem

    model, g, data = make("model", config.model), make("g", config.g), make("data", config.data)
    shared: dict[str, Any] = {"g": g, "weights": config.weights, "seed": config.init_seed}
    try:
        if _is_regression(data):
            if config.class_weight is not None:
                raise ConfigError("class_weight is for classes, the data have numbers to predict; leave it out.")
            problem = Problem.regression(model, data, **shared)
        else:
            problem = Problem.classification(model, data, class_weight=config.class_weight, **shared)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    if config.g is not None:
        try:
            jax.eval_shape(g.prox, problem.init, 1.0)
        except ValueError as error:
            raise ConfigError(f"g {config.g.name}: {error}") from None
    return problem


def _is_regression(data: "FederatedData") -> bool:
    """Return whether the labels are numbers to predict: real ones without names of classes."""
    y = data.train.samples.get("y")
    return y is not None and y.dtype.kind == "f" and not data.classes


def make(kind: str, part: Component | None, label: str = "") -> Any:
    """Call what the part names with its arguments, in which parts and tables of parts are made first."""
    if part is None:
        return None
    arguments = {key: _argument(value) for key, value in part.arguments.items()}
    try:
        if "leave" in arguments:
            from feddr.prox import leave

            arguments["mask"] = leave(*arguments.pop("leave"))
        return target(kind, part.name)(**arguments)
    except ValueError as error:
        raise ConfigError(f"{kind} {label or part.name}: {error}") from None


def _argument(value: Any) -> Any:
    if isinstance(value, Component):
        return make(value.kind, value)
    if isinstance(value, tuple):
        return tuple(map(_argument, value))
    return {key: _argument(entry) for key, entry in value.items()} if isinstance(value, Mapping) else value
