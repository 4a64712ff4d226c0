"""The rate of all three theorems: the average of E ||G_eta(xbar^k)||^2 over k = 0..K is at most total / (K + 1)."""

import math

from feddr.theory import checks


def average(total: float, K: int) -> float:
    """Return total / (K + 1), the bound on the average squared gradient mapping of xbar^0, ..., xbar^K."""
    checks.count("K", K, 0)
    return total / (K + 1)


def rounds(total: float, epsilon: float) -> int:
    """Return K = floor(total / epsilon^2), after which the average is at most epsilon^2."""
    checks.positive("epsilon", epsilon)
    return math.floor(total / epsilon**2)
