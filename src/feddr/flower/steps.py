"""Step sizes between server and nodes: the numbers of a run, and those that a task carries to its client.

Server and nodes have the algorithm as the user has written it, and compare that. What it leaves open, "auto", is
settled once by the server; a node gets its own eta_i and alpha with each task.
"""

import dataclasses
import math
from typing import Any

from feddr.algorithms import FedDR, Roles
from feddr.algorithms.step_sizes import StepSizes

NAMES = ("eta", "alpha", "alpha_decay")


def is_open(algorithm: Any) -> bool:
    """Return whether the algorithm leaves a step size to be chosen."""
    return any(getattr(algorithm, name, None) == "auto" for name in NAMES)


def numbers(algorithm: Any) -> dict[str, Any]:
    """Return the step sizes of an algorithm as plain values: what the ledger keeps, and ``settled`` takes."""
    values = {name: getattr(algorithm, name) for name in NAMES if hasattr(algorithm, name)}
    return {name: list(value) if isinstance(value, StepSizes) else value for name, value in values.items()}


def settled(algorithm: Any, numbers: dict[str, Any]) -> Any:
    """Return the algorithm with the step sizes of a run.

    What else is "auto" is settled as for a local solver of fixed work: nothing is certified in a deployment.
    """
    if isinstance(algorithm, FedDR):
        algorithm = algorithm.settled(certified=False)
    return dataclasses.replace(algorithm, **numbers) if is_open(algorithm) else algorithm


def own_numbers(roles: Roles, client: int) -> dict[str, float]:
    """Return the eta_i, alpha and alpha_decay that a client receives with its task, NaN where the method has none."""
    values = {name: getattr(roles.client(client), name, None) for name in NAMES}
    return {name: math.nan if value is None else float(value) for name, value in values.items()}


def own(algorithm: Any, eta: float, alpha: float, alpha_decay: float) -> Any:
    """Return the rules of a client with the eta_i, alpha and alpha_decay of its task, which replace "auto" and lists.

    Raises
    ------
    ValueError
        Where they are out of their range.
    """
    chosen: dict[str, Any] = {}
    if getattr(algorithm, "eta", None) == "auto" or isinstance(getattr(algorithm, "eta", None), StepSizes):
        if not 0 < eta < math.inf:
            raise ValueError(f"A task must bring a positive step size, got eta={eta}; look at the server's log.jsonl.")
        chosen["eta"] = eta
    if getattr(algorithm, "alpha", None) == "auto":
        if not 0 < alpha <= 2:
            raise ValueError(
                f"A task must bring a relaxation in (0, 2], got alpha={alpha}; look at the server's log.jsonl."
            )
        chosen["alpha"] = alpha
        if not (math.isnan(alpha_decay) or alpha_decay > 0):
            raise ValueError(
                f"A task must bring a positive alpha_decay, or NaN, got {alpha_decay}; look at the server's log.jsonl."
            )
        chosen["alpha_decay"] = None if math.isnan(alpha_decay) else alpha_decay
    return dataclasses.replace(settled(algorithm, {}), **chosen)
