"""The network: latency and bandwidth, from the bytes that are really sent."""

import math
from dataclasses import dataclass

from feddr.delays.delay import Job, Timing


@dataclass(frozen=True)
class Network:
    """A message of b bytes takes latency + b / bandwidth seconds.

    Parameters
    ----------
    latency
        Seconds for a message, however short.
    bandwidth
        Bytes in a second; infinite by default.
    upload
        Bytes in a second from a client to the server, where that is slower; as ``bandwidth`` by default.

    Examples
    --------
    >>> job = Job(seed=0, client=1, number=0, steps=10, down=1000, up=500)
    >>> Network(latency=0.5, bandwidth=1000.0).apply(job, Timing())[:3]
    (1.5, 1.0, 1.0)
    """

    latency: float = 0.0
    bandwidth: float = math.inf
    upload: float | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.latency < math.inf:
            raise ValueError(f"Network needs a finite latency of 0 or more, got {self.latency}.")
        for name, value in (("bandwidth", self.bandwidth), ("upload", self.upload)):
            if value is not None and not value > 0:
                raise ValueError(f"Network needs {name} above 0, got {value}.")

    def check(self, n: int) -> None:
        """Fit any number of clients."""

    def apply(self, job: Job, timing: Timing) -> Timing:
        """Add to the times of receiving and sending."""
        up = self.bandwidth if self.upload is None else self.upload
        return timing._replace(
            receive=timing.receive + self.latency + job.down / self.bandwidth,
            send=timing.send + self.latency + job.up / up,
        )
