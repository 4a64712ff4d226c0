"""Computing time: factors, which are multiplied where models are combined."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from statistics import NormalDist
from typing import Any

from feddr.delays.delay import Job, Timing
from feddr.validation.messages import one_line

_UNIFORM, _LOGNORMAL, _PARETO = 1, 2, 3
_NORMAL = NormalDist()


def positive(owner: object, name: str, value: float, most: float = math.inf) -> None:
    """Refuse a number that is not above 0 and below ``most``."""
    if not 0 < value < most:
        bound = "" if most == math.inf else f" and below {most:g}"
        raise ValueError(f"{type(owner).__name__} needs {name} above 0{bound}, got {value}.")


@dataclass(frozen=True)
class Fixed:
    """The same time in every job: one number for everybody, or one for each client.

    Parameters
    ----------
    seconds
        Above 0; infinity for a client that never finishes.

    Examples
    --------
    >>> job = Job(seed=0, client=1, number=0, steps=10, down=1000, up=500)
    >>> Fixed([1.0, 2.5]).apply(job, Timing()).compute
    2.5
    """

    seconds: float | Sequence[float] = 1.0

    def __post_init__(self) -> None:
        seconds: Any = self.seconds
        if not isinstance(seconds, Real):
            try:
                object.__setattr__(self, "seconds", tuple(map(float, seconds)))
            except (TypeError, ValueError):
                got = one_line(repr(seconds))
                raise ValueError(f"Fixed needs a number of seconds, or one for each client, got {got}.") from None
        for value in self.seconds if isinstance(self.seconds, Sequence) else (self.seconds,):
            if not value > 0:
                raise ValueError(f"Fixed needs seconds above 0, got {value}.")

    def check(self, n: int) -> None:
        """Raise ValueError unless there is one number, or one for each client."""
        if isinstance(self.seconds, Sequence) and len(self.seconds) != n:
            raise ValueError(f"Fixed needs one number of seconds for each of {n} clients, got {len(self.seconds)}.")

    def apply(self, job: Job, timing: Timing) -> Timing:
        """Multiply the computing time."""
        factor = self.seconds[job.client] if isinstance(self.seconds, Sequence) else self.seconds
        return timing._replace(compute=timing.compute * factor)


@dataclass(frozen=True)
class UniformSpeed:
    """A factor for each client, drawn once, uniform between ``low`` and ``high``.

    ``UniformSpeed(1.0, 2.0)``: the fastest client is up to twice as fast as the slowest.

    Examples
    --------
    >>> job = Job(seed=0, client=1, number=0, steps=10, down=1000, up=500)
    >>> speed = UniformSpeed(1.0, 2.0)
    >>> 1 <= speed.apply(job, Timing()).compute == speed.apply(job._replace(number=7), Timing()).compute <= 2
    True
    """

    low: float
    high: float

    def __post_init__(self) -> None:
        positive(self, "low", self.low)
        if not self.low <= self.high < math.inf:
            raise ValueError(f"UniformSpeed needs low <= high, got low={self.low}, high={self.high}.")

    def check(self, n: int) -> None:
        """Fit any number of clients."""

    def apply(self, job: Job, timing: Timing) -> Timing:
        """Multiply the computing time."""
        factor = self.low + (self.high - self.low) * job.draw_once(_UNIFORM)
        return timing._replace(compute=timing.compute * factor)


@dataclass(frozen=True)
class LogNormal:
    """A factor exp(sigma N(0, 1)), with median 1, drawn for every job or, with ``per_client``, once for each client.

    Examples
    --------
    >>> job = Job(seed=0, client=1, number=0, steps=10, down=1000, up=500)
    >>> LogNormal(0.5).apply(job, Timing()).compute > 0
    True
    """

    sigma: float
    per_client: bool = False

    def __post_init__(self) -> None:
        positive(self, "sigma", self.sigma)

    def check(self, n: int) -> None:
        """Fit any number of clients."""

    def apply(self, job: Job, timing: Timing) -> Timing:
        """Multiply the computing time."""
        draw = job.draw_once(_LOGNORMAL) if self.per_client else job.draw(_LOGNORMAL)
        return timing._replace(compute=timing.compute * math.exp(self.sigma * _NORMAL.inv_cdf(draw)))


@dataclass(frozen=True)
class Pareto:
    """Stragglers: a factor with P(factor > t) = t^-shape for t >= 1, drawn for every job or once for each client.

    The mean is shape / (shape - 1), infinite for shape <= 1.

    Examples
    --------
    >>> job = Job(seed=0, client=1, number=0, steps=10, down=1000, up=500)
    >>> Pareto(1.5).apply(job, Timing()).compute >= 1
    True
    """

    shape: float
    per_client: bool = False

    def __post_init__(self) -> None:
        positive(self, "shape", self.shape)

    def check(self, n: int) -> None:
        """Fit any number of clients."""

    def apply(self, job: Job, timing: Timing) -> Timing:
        """Multiply the computing time."""
        draw = job.draw_once(_PARETO) if self.per_client else job.draw(_PARETO)
        return timing._replace(compute=timing.compute * draw ** (-1.0 / self.shape))


@dataclass(frozen=True)
class PerStep:
    """Computing time in proportion to the work: seconds for each local step.

    The steps are those that the local solver plans for the client's samples; for one that stops by itself, such as
    ``Accelerated``, the most that it may take.

    Examples
    --------
    >>> job = Job(seed=0, client=1, number=0, steps=10, down=1000, up=500)
    >>> PerStep(0.25).apply(job, Timing()).compute
    2.5
    """

    seconds: float

    def __post_init__(self) -> None:
        positive(self, "seconds", self.seconds)

    def check(self, n: int) -> None:
        """Fit any number of clients."""

    def apply(self, job: Job, timing: Timing) -> Timing:
        """Multiply the computing time."""
        return timing._replace(compute=timing.compute * self.seconds * job.steps)
