"""The admissible region of (alpha, eta), as curves to plot."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from feddr.theory import asynchronous, checks, synchronous


@dataclass(frozen=True)
class Curve:
    """The boundary eta = eta_max(alpha); a pair (alpha, eta) strictly below it is admissible.

    Examples
    --------
    >>> curve = region(L=1.0, n=10, taus=())[0]
    >>> curve.label, len(curve.alpha) == len(curve.eta)
    ('FedDR', True)
    """

    label: str
    alpha: NDArray[np.float64]
    eta: NDArray[np.float64]


def region(
    L: float, n: int | None = None, taus: Sequence[int] = (), *, gamma4: float = 0.0, points: int = 201
) -> tuple[Curve, ...]:
    """Return the boundary for Algorithm 1, and for Algorithm 2 with each of the delays taus.

    Every curve runs from the limit (0, 1/L) to (alpha_max, 0); neither end is itself admissible.

    Parameters
    ----------
    L
        Smoothness of the f_i.
    n, taus
        Number of clients and largest delays for Algorithm 2; without delays only Algorithm 1.
    gamma4
        0 for an exact prox; see `feddr.theory.synchronous.Gammas`.
    points
        Number of points of a curve.

    Examples
    --------
    >>> [curve.label for curve in region(L=1.0, n=10, taus=(0, 5))]
    ['FedDR', 'asyncFedDR, tau = 0', 'asyncFedDR, tau = 5']
    """
    checks.positive("L", L)
    checks.count("points", points, 2)
    alphas = np.linspace(0.0, synchronous.alpha_max(gamma4), points)
    curves = [Curve("FedDR", alphas, np.array([synchronous.boundary(a, L, gamma4) for a in alphas]))]
    for tau in taus:
        if n is None:
            raise ValueError(f"Delays need the number of clients n, got taus={tuple(taus)} and n=None; give n.")
        c = asynchronous.delay_factor(n, tau)
        alphas = np.linspace(0.0, asynchronous.alpha_max(n, tau), points)
        etas = np.array([asynchronous.boundary(a, L, c) for a in alphas])
        curves.append(Curve(f"asyncFedDR, tau = {tau}", alphas, etas))
    return tuple(curves)
