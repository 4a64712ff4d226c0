"""Arguments of the theory: each refusal names requirement, value and remedy."""

import math


def positive(name: str, value: float) -> None:
    """Require a finite value > 0."""
    if not 0 < value < math.inf:
        raise ValueError(f"{name} must lie in (0, inf), got {value}; give a finite positive number.")


def nonnegative(name: str, value: float) -> None:
    """Require a finite value >= 0."""
    if not 0 <= value < math.inf:
        raise ValueError(f"{name} must lie in [0, inf), got {value}; give a finite number, 0 for none.")


def count(name: str, value: int, least: int) -> None:
    """Require a whole number >= least."""
    if not (math.isfinite(value) and value == int(value) and value >= least):
        raise ValueError(f"{name} must be a whole number >= {least}, got {value}.")


def clients(n: float) -> None:
    """Require the number of clients, or 1 / max_i w_i in its place, to be at least 1."""
    if not 1 <= n < math.inf:
        raise ValueError(f"n must be at least 1, got {n}; it is the number of clients, or 1 / max_i w_i.")


def probability(value: float) -> None:
    """Require p_hat, the smallest probability that a client takes part, in (0, 1]."""
    if not 0 < value <= 1:
        raise ValueError(
            f"p_hat must lie in (0, 1], got {value}; it is the smallest probability that a client takes part, "
            "m / n when m of n clients are drawn uniformly."
        )


def relaxation(alpha: float, largest: float = 2.0, why: str = "") -> None:
    """Require alpha in (0, largest)."""
    if not 0 < alpha < largest:
        raise ValueError(f"alpha must lie in (0, {largest:.6g}){why}, got {alpha}; take {largest / 2:.6g}, the middle.")


def stepsize(eta: float, largest: float, why: str, descent: float) -> None:
    """Require eta in (0, largest), and a positive descent, which rounding may take from the last numbers below."""
    if not (0 < eta < largest and descent > 0):
        raise ValueError(f"eta must lie in (0, {largest:.6g}) {why}, got {eta}; take {largest / 2:.6g}, the middle.")
