"""The protocol of delay models: each fills in a part of the timing of a job."""

from collections.abc import Callable
from typing import NamedTuple, Protocol, runtime_checkable

from feddr.delays.draw import uniform

Online = Callable[[float], tuple[float, float]]
"""From a time t to the first interval (from, until) in which the client is there, with t <= from < until."""


class Job(NamedTuple):
    """One piece of work of a client, as far as its duration may depend on it.

    Parameters
    ----------
    seed, client, number
        What random durations are drawn from; ``number`` counts the client's jobs from 0, lost ones included.
    steps
        Local steps, or the most that there may be where the solver stops by itself.
    down, up
        Bytes of the message to the client and of its upload.
    stream
        Sets apart the draws of models that are combined.

    Examples
    --------
    >>> job = Job(seed=0, client=1, number=0, steps=10, down=1000, up=500)
    >>> job.draw(100) == job.draw(100), job.draw(100) == job._replace(number=1).draw(100)
    (True, False)
    """

    seed: int
    client: int
    number: int
    steps: int
    down: int
    up: int
    stream: int = 0

    def draw(self, tag: int) -> float:
        """Return a number in (0, 1) that belongs to this job."""
        return uniform((tag, self.stream, self.seed), self.client, self.number)

    def draw_once(self, tag: int) -> float:
        """Return a number in (0, 1) that belongs to this client, the same in all its jobs."""
        return uniform((tag, self.stream, self.seed), self.client)


class Timing(NamedTuple):
    """How long the parts of a job take.

    Parameters
    ----------
    receive, compute, send
        Seconds for the message, the local update and the upload. Computing takes one second unless a model says
        otherwise; infinity stands for a client that never finishes.
    lost_after
        Share of the job after which the client drops out; None if it does not.
    pause
        Seconds from a drop-out until the client is back.
    online
        The intervals in which the client is online; unfinished work continues in the next one. None for always.

    Examples
    --------
    >>> Timing(compute=2.0)._replace(lost_after=0.5, pause=10.0)
    Timing(receive=0.0, compute=2.0, send=0.0, lost_after=0.5, pause=10.0, online=None)
    """

    receive: float = 0.0
    compute: float = 1.0
    send: float = 0.0
    lost_after: float | None = None
    pause: float = 0.0
    online: Online | None = None


@runtime_checkable
class Delay(Protocol):
    """A model of delays: a pure function that fills in its part of a job's timing.

    Examples
    --------
    >>> import feddr
    >>> delay: Delay = feddr.delays.Fixed([1.0, 2.5])
    >>> delay.check(n=2)
    >>> job = Job(seed=0, client=1, number=0, steps=10, down=1000, up=500)
    >>> delay.apply(job, Timing()).compute
    2.5
    """

    def check(self, n: int) -> None:
        """Raise ValueError unless the model fits n clients."""

    def apply(self, job: Job, timing: Timing) -> Timing:
        """Return the timing with this model's part: factors multiply, the other parts are set or added."""
