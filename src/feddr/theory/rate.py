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


class Rate:
    """What follows from the total of a theorem, where it depends on the gap alone."""

    def total(self, gap: float) -> float:
        """Return the total for F(x^0) - F* = gap."""
        raise NotImplementedError

    def bound(self, K: int, gap: float) -> float:
        """Return the bound on the average of E ||G_eta(xbar^k)||^2 over k = 0..K."""
        return average(self.total(gap), K)

    def rounds(self, epsilon: float, gap: float) -> int:
        """Return the K after which a uniformly drawn xbar^k, k <= K, has E ||G_eta||^2 <= epsilon^2."""
        return rounds(self.total(gap), epsilon)
