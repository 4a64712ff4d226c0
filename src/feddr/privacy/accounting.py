"""Epsilon after so many releases, by ``dp-accounting``.

Two federations are neighbours when the data of one site are replaced by any others. The clipped change of a site then
moves by at most 2 clip, so that one upload is a Gaussian mechanism whose noise is noise / 2 times its sensitivity.
Adaptive compositions of k such mechanisms have the privacy of one with a noise smaller by sqrt(k) (Dong, Roth and Su
2022), for which ``dp_accounting.get_epsilon_gaussian`` is exact. A sum over m sampled sites without replacement is
accounted by Renyi divergences (``dp_accounting.rdp``; Wang, Balle and Kasiviswanathan 2019). With ``RecordLevel`` one
record of a site is replaced, and a pass over the records is such a mechanism, with the same numbers.
"""

import functools
import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from feddr.sampling import Full, Sampling, Uniform
from feddr.validation import scalars


def epsilon_of_uploads(noise: float, delta: float, releases: int) -> float:
    """Return the epsilon of a site after so many uploads that an adversary has seen.

    Parameters
    ----------
    noise, delta
        As in ``SiteLevel``.
    releases
        Uploads of the site; with ``RecordLevel``, the passes over its records in all of them.

    Raises
    ------
    ValueError
        Where ``dp-accounting`` is not installed.

    Examples
    --------
    >>> round(epsilon_of_uploads(noise=10.0, delta=1e-5, releases=1), 3)
    0.726
    >>> epsilon_of_uploads(noise=10.0, delta=1e-5, releases=0)
    0.0
    """
    releases = scalars.whole("releases", releases, 0)
    return epsilon_of_distance(2.0 * math.sqrt(releases) / noise, delta)


def epsilon_of_distance(distance: float, delta: float) -> float:
    """Return the epsilon of all that was released, from how far apart it is between neighbours, in units of the noise.

    Parameters
    ----------
    distance
        The root of the sum over releases of (sensitivity / noise)^2; 2 / noise for one upload.
    delta
        As in ``SiteLevel``.

    Raises
    ------
    ValueError
        Where ``dp-accounting`` is not installed.

    Examples
    --------
    >>> epsilon_of_distance(2.0 * 3**0.5 / 8.0, 1e-5) == epsilon_of_uploads(noise=8.0, delta=1e-5, releases=3)
    True
    """
    return float(_library().get_epsilon_gaussian(1.0 / distance, delta)) if distance > 0 else 0.0


def epsilon_of_models(noise: float, delta: float, rounds: int, sampling: Sampling, weights: ArrayLike) -> float:
    """Return the epsilon of every site after so many rounds, where only weighted means over sites are seen.

    Parameters
    ----------
    noise, delta
        As in ``SiteLevel``.
    rounds
        Rounds so far.
    sampling
        ``Full()``, or ``Uniform(m)`` with equal weights: the draws must be secret.
    weights
        The weights w_i of the sites in the mean.

    Raises
    ------
    ValueError
        Where nothing is known of such means, or ``dp-accounting`` is not installed.

    Examples
    --------
    >>> import feddr
    >>> one = epsilon_of_models(5.0, 1e-5, 10, feddr.sampling.Full(), [0.25] * 4)  # the noise of four is twice one's
    >>> one == epsilon_of_uploads(10.0, 1e-5, 10)
    True
    """
    w, rounds = np.asarray(weights, np.float64), scalars.whole("rounds", rounds, 0)
    check_models(sampling, w)
    drawn = sampling.m if isinstance(sampling, Uniform) else len(w)
    if drawn == len(w):
        return epsilon_of_uploads(noise * float(np.linalg.norm(w) / w.max()), delta, rounds)
    if rounds == 0:
        return 0.0
    orders, once = _sampled(len(w), drawn, noise * math.sqrt(drawn) / 2.0)
    epsilon, _ = _library().rdp.compute_epsilon(orders, rounds * once, delta)
    return float(epsilon)


def check_models(sampling: Sampling, weights: ArrayLike) -> None:
    """Refuse a mean over sites of which it is not known how much one site moves it, or how much noise it has."""
    if isinstance(sampling, Full):
        return
    if not isinstance(sampling, Uniform):
        raise ValueError(f'sees="models" is accounted for Full and Uniform, got {sampling}; take one, or "uploads".')
    if np.ptp(np.asarray(weights)) > 1e-12 * np.max(weights):
        raise ValueError(
            f'sees="models" with {sampling} needs equal weights, got some from {np.min(weights):.3g} to '
            f'{np.max(weights):.3g}; give the problem weights="uniform", or take Full().'
        )


def noise_for(budget: float, delta: float, releases: int) -> float:
    """Return the least noise with which a site may send so many uploads within a budget.

    Parameters
    ----------
    budget, delta
        Epsilon and delta.
    releases
        Uploads of each site: the rounds of a run in which everybody takes part. With ``RecordLevel``, these times the
        passes of an update.

    Raises
    ------
    ValueError
        Where a number is out of its range, or ``dp-accounting`` is not installed.

    Examples
    --------
    >>> noise = noise_for(budget=8.0, delta=1e-3, releases=20)
    >>> round(noise, 2), epsilon_of_uploads(noise, 1e-3, 20) <= 8.0 < epsilon_of_uploads(0.999 * noise, 1e-3, 20)
    (4.29, True)
    """
    releases = scalars.whole("releases", releases, 1)
    for name, value, largest in (("budget", budget, math.inf), ("delta", delta, 1.0)):
        if not 0 < scalars.number(name, value) < largest:
            raise ValueError(f"{name} must be above 0 and below {largest:g}, got {value}.")
    least = float(_library().get_sigma_gaussian(budget, delta)) * 2.0 * math.sqrt(releases)
    return least * (1.0 + 1e-6)  # a rounding on the wrong side would cost the last round


@functools.lru_cache(maxsize=16)
def _sampled(sites: int, drawn: int, multiplier: float) -> tuple[Any, Any]:
    """Return orders and Renyi divergences of one round; of k rounds they are k times as large."""
    library = _library()
    accountant = library.rdp.RdpAccountant(neighboring_relation=library.NeighboringRelation.REPLACE_ONE)
    event = library.SampledWithoutReplacementDpEvent(sites, drawn, library.GaussianDpEvent(multiplier))
    accountant.compose(event)
    return accountant.orders, accountant.rdp


def _library() -> Any:
    try:
        import dp_accounting
    except ImportError:
        raise ValueError("Privacy is accounted by dp-accounting, which is missing; pip install 'feddr[dp]'.") from None
    return dp_accounting
