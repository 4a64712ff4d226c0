"""The rounds of a synchronous run, from the first draw to the result, wherever its clients compute."""

import functools
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from feddr import tree
from feddr.algorithms import Algorithm
from feddr.certify import measurements_for
from feddr.checkpoint.encoding import Stateful
from feddr.checkpoint.identity import identity
from feddr.checkpoint.manager import Checkpoint, CheckpointManager
from feddr.engines.clock.round_clock import RoundClock
from feddr.engines.clock.settings import Clock
from feddr.engines.result import Result, describe
from feddr.engines.shared.compiled_clients import mean_work
from feddr.engines.shared.errors import DivergedError
from feddr.engines.shared.executor import ClientTask
from feddr.engines.shared.options import EngineOptions
from feddr.engines.shared.privacy import PrivacySpent
from feddr.engines.shared.progress import ShowProgress, shown
from feddr.engines.shared.randomness import sampling_rng
from feddr.engines.shared.server import ServerRun
from feddr.engines.shared.state import Callback, Progress, notify
from feddr.local import LocalSolver
from feddr.theory.advice import resolve, review
from feddr.tree import Tree
from feddr.validation import scalars
from feddr.xla import batching


@dataclass(frozen=True)
class RoundsRequest:
    """What a synchronous engine is asked beyond its options; ``feddr.simulate`` describes the fields."""

    rounds: int
    init: Tree | None
    callback: Callback | None
    certify: bool
    clock: Clock | None
    checkpoint: Checkpoint | None
    progress: ShowProgress

    def __post_init__(self) -> None:
        object.__setattr__(self, "rounds", scalars.whole("rounds", self.rounds, 0))


def play(
    problem: Any,
    algorithm: Algorithm,
    local: LocalSolver,
    options: EngineOptions,
    request: RoundsRequest,
    open_run: Callable[[Any, Algorithm], AbstractContextManager[ServerRun]],
) -> Result:
    """Run an algorithm for a number of rounds.

    Parameters
    ----------
    open_run
        From the problem and the algorithm with its step sizes to the run, open until the last round is over.
    """
    options.check(algorithm, problem, local)
    problem = problem if request.init is None else problem.starting_at(request.init)
    n, seed, sampling = problem.data.num_clients, options.seed, options.sampling
    rounds, clock, where, certify = request.rounds, request.clock, request.checkpoint, request.certify
    if clock is not None:
        clock.check(algorithm, n)
    _check_clock(algorithm, clock)
    batching.prepare(mean_work(problem, local))
    algorithm, words, *_ = chosen = resolve(algorithm, problem, sampling, local)
    options.announce(chosen)
    measurements = measurements_for(problem, algorithm, sampling) if certify else None
    callbacks = [call for call in (measurements, request.callback) if call is not None]
    engine = {"engine": "simulate", "sampling": sampling, "certify": certify, **_words(clock)}
    with open_run(problem, algorithm) as run, shown(request.progress, type(algorithm).__name__, rounds) as bar:
        stopper = options.stopper()
        rounds_clock = None if clock is None else RoundClock(run, clock)
        parts: dict[str, Stateful] = {} if rounds_clock is None else {"clock": rounds_clock}
        spent = PrivacySpent(getattr(algorithm, "privacy", None), sampling, run.roles.mean_weights)
        if spent.privacy is not None:
            parts["privacy"] = spent
        if measurements is not None:
            measurements.attach(run.state, run.measures(measurements.smoothness.lowers))
            parts["watch"] = measurements
        same = {} if where is None else identity(problem, algorithm, local, options, engine)
        with CheckpointManager(where, run, parts, same) as checkpoints:
            run.attach(checkpoints)

            def columns() -> dict[str, float]:
                return (rounds_clock.columns() if rounds_clock else {}) | spent.columns

            def report(k: int, asked: int) -> bool:
                row, over = None, stopper.spent(run.recorder, run.state)
                if k % options.evaluate_every == 0 or k == rounds or over:
                    row = run.evaluate(k, **columns())
                    over = stopper.reached(run.recorder)
                stop = notify([*callbacks, *bar], Progress(k, rounds, run.state, row, asked, run.workers)) or over
                checkpoints.after(k, last=stop or k == rounds)
                return stop

            @functools.lru_cache(maxsize=2)
            def active(k: int) -> NDArray[np.int64]:
                return sampling.draw(n, sampling_rng(seed, k))

            def next_active(k: int) -> list[int]:
                return active(k + 1).tolist() if k < rounds else []

            resumed = checkpoints.begin(rounds)
            if resumed is not None:
                stop = stopper.spent(run.recorder, run.state) or stopper.reached(run.recorder)
            else:
                asked = n if algorithm.full_start else 0
                if asked and spent.allows(range(n)):
                    spent.spend(range(n))
                    _round(run, rounds_clock, 0, np.arange(n))
                stop = report(0, asked)
            k = resumed or 0
            while k < rounds and not stop:
                drawn = active(k + 1)
                if not spent.allows(drawn.tolist()):
                    break
                k += 1
                spent.spend(drawn.tolist())
                _round(run, rounds_clock, k, drawn, functools.partial(next_active, k))
                stop = report(k, len(drawn))
            if run.history.last.round < k:
                run.evaluate(k, **columns())
            if spent.reason:
                checkpoints.after(k, last=True)
    if measurements is not None:
        measurements.attach(run.state)  # workers have ended
    review(chosen, run.state.met)
    settings = describe(problem, algorithm, local, options, words) | {"sampling": repr(sampling), "rounds": k}
    settings |= run.settings | stopper.settings(type(algorithm).__name__, k, rounds)
    settings |= spent.settings(type(algorithm).__name__, k, options.verbose)
    if certify:
        settings["certify"] = True
    if clock is not None:
        settings |= {"delays": repr(clock.delays), "deadline": clock.deadline}
    events = rounds_clock.close() if rounds_clock else ()
    params = tree.cast(run.state.server.xbar, run.dtype)
    return Result(params, run.history, run.state, problem, algorithm, settings, local, sampling, measurements, events)


def _check_clock(algorithm: Algorithm, clock: Clock | None) -> None:
    """Refuse to lose updates where privacy counts on the noise of each."""
    if clock is not None and getattr(getattr(algorithm, "privacy", None), "sees", None) == "models":
        raise ValueError(
            f'sees="models" counts on the noise of every client, got {clock}, which may lose some; use sees="uploads", '
            "or no clock."
        )


def _words(clock: Clock | None) -> dict[str, Any]:
    """Return what identifies the virtual time of a run."""
    if clock is None:
        return {"delays": None, "deadline": None, "max_events": Clock().max_events}
    return {"delays": clock.delays, "deadline": clock.deadline, "max_events": clock.max_events}


def _round(
    run: ServerRun,
    clock: RoundClock | None,
    k: int,
    active: NDArray[np.int64],
    upcoming: Callable[[], Iterable[int]] = tuple,
) -> None:
    """Let the active clients compute, then the server."""
    message = run.message()
    in_time = active if clock is None else clock.round(k, active)
    try:
        skipped = run.round(k, [ClientTask(k, int(i), message.content) for i in in_time], upcoming)
    except DivergedError:
        if clock is not None:
            clock.undo()
        raise
    if clock is not None and skipped:
        clock.skipped(skipped)
    run.count_down(message, len(active))
