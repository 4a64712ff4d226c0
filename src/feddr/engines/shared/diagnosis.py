"""Diagnosis of a NaN or an infinity: which client sent it, after which local step, and the likely cause.

Nothing of this is computed before it is needed: the update that failed is repeated with the same randomness.
"""

import math
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from feddr import precision
from feddr.data import Samples
from feddr.engines.shared.aggregation import finite
from feddr.engines.shared.compiled_clients import CompiledClients, SubproblemTask
from feddr.engines.shared.errors import DivergedError, DivergenceWarning, shorter
from feddr.problem import Problem
from feddr.tree import Tree

if TYPE_CHECKING:
    from feddr.engines.shared.executor import ClientTask
    from feddr.engines.shared.run import Run
    from feddr.engines.shared.server import ServerRun

TOO_LARGE = 1e3
"""A run is warned when F exceeds this multiple of max(1, |its first value|)."""

CLIENTS = 1000
"""Clients, at most, whose losses are computed to find the one that is not finite."""


def upload(run: "Run", task: "ClientTask", last_good_round: int) -> DivergedError:
    """Return the error for a client whose upload, on top of the state after ``last_good_round``, is not finite."""
    i, k = task.client, last_good_round + 1
    _, solving = run.executor.prepare(task)
    total = run.local.num_steps(int(run.problem.data.sizes[i]))
    step = _first_bad_step(run.clients, solving, total)
    if step is None:
        where = "Its local steps stayed finite."
    elif step == 0:
        where = "It began where a number is not finite."
    else:
        where = f"Local step {step} of {total} was the first to leave the finite numbers."
    text = f"Client {i} sent a number that is not finite in round {k}. {where} {_cause(run, solving)}"
    return DivergedError(text, i, k, step, last_good_round)


def metric(run: "ServerRun", k: int, name: str, value: float) -> DivergedError:
    """Return the error for a metric that is not finite at xbar, which is."""
    what = {"f": "f", "gradient_mapping": "the gradient"}[name]
    when = "at the start" if k == 0 else f"after round {k}"
    problem, xbar = run.problem, run.state.server.xbar
    i = _bad_client(problem, xbar) if isinstance(problem, Problem) else None
    if isinstance(problem, Problem) and i is None and name == "gradient_mapping" and finite(problem.gradient(xbar)):
        cause = _wrong_prox(run)
    elif i is None:
        cause = f"The run has diverged: {shorter(run.local, run.algorithm)}."
    else:
        rows = _bad_row(run.problem.data.client(i))
        cause = _dirty(f"The samples of client {i} hold", rows) if rows else f"The loss of client {i} is the first."
    return DivergedError(f"At xbar {when}, {what} is {value}, though xbar is finite. {cause}", i, k)


def growth(run: "ServerRun") -> None:
    """Warn once, when F has grown so much that it may well grow without bound."""
    rows, last = run.history.rows, run.history.last
    limit = TOO_LARGE * max(1.0, abs(rows[0].F))
    if limit < last.F < math.inf and not any(limit < row.F < math.inf for row in rows[:-1]):
        warnings.warn(
            f"F is {last.F:.3g} after round {last.round}, it was {rows[0].F:.3g} in the first row: the run seems to "
            f"diverge; {shorter(run.local, run.algorithm)}.",
            DivergenceWarning,
            stacklevel=4,
        )


def _first_bad_step(clients: CompiledClients, task: SubproblemTask, total: int) -> int | None:
    """Return how many steps it takes to leave the finite numbers, by bisection: there is no way back from a NaN."""
    arguments = clients.arguments(task)

    def bad(steps: int) -> bool:
        return not finite(clients.call(arguments._replace(steps=np.int32(steps))).x)

    if not bad(total):
        return None
    low, high = -1, total
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if bad(middle) else (middle, high)
    return high


def _cause(run: "Run", task: SubproblemTask) -> str:
    sub, lr = task.sub, run.local.step_size
    rows = _bad_row(run.problem.data.client(task.client))
    if rows:
        return _dirty("Its samples hold", rows)
    value, gradient = run.problem.client_value_and_gradient(task.client, sub.start)
    for what, number in (("loss", value), ("gradient", gradient)):
        if finite(sub.start) and not finite(number):
            return f"Its {what} is not finite where it began, though that point and its samples are: look at the loss."
    if sub.descent is not None and lr is not None:
        prox = run.problem.regulariser.prox
        with precision.scope(run.dtype):
            proxes = sub.descent.model(sub.start, 0.0, prox), sub.descent.follow(sub.start, lr, prox)
        if finite(sub.start) and not finite(proxes):
            return _wrong_prox(run)
    if sub.center is not None and lr is not None and lr > 2 * sub.eta:
        return (
            f"With eta = {sub.eta:g} the proximal term alone makes steps of lr = {lr:g} diverge: lower the learning "
            f"rate of {run.local} below 2 eta, or raise the eta of {run.algorithm}."
        )
    return f"The local steps are probably too long: {shorter(run.local, run.algorithm)}."


def _wrong_prox(run: "ServerRun") -> str:
    return f"The prox of {run.problem.regulariser} is not finite at a point that is: look at g."


def _dirty(whose: str, rows: dict[str, int]) -> str:
    places = ", ".join(f"row {row} of {name}" for name, row in rows.items())
    return f"{whose} a NaN or an infinity ({places}): clean them, or leave the client out."


def _bad_row(samples: Samples) -> dict[str, int]:
    """Return the first row of each array that holds a number that is not finite."""
    rows = {}
    for name, array in samples.items():
        if np.issubdtype(array.dtype, np.inexact):
            bad: Any = ~np.isfinite(array).reshape(len(array), -1).all(axis=1)
            if bad.any():
                rows[name] = int(np.argmax(bad))
    return rows


def _bad_client(problem: Problem, xbar: Tree) -> int | None:
    """Return the first client whose samples or whose loss at xbar are not finite."""
    panel = [int(i) for i in problem.data.panel[:CLIENTS]]
    for i in panel:
        if _bad_row(problem.data.client(i)):
            return i
    for i in panel:
        value, gradient = problem.client_value_and_gradient(i, xbar)
        if not (finite(value) and finite(gradient)):
            return i
    return None
