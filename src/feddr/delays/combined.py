"""``Combined``: several delay models at once, whose computing factors are multiplied."""

from collections.abc import Sequence
from dataclasses import dataclass

from feddr.delays.availability import Periodic, Windows
from feddr.delays.delay import Delay, Job, Timing
from feddr.delays.trace import Trace


@dataclass(frozen=True)
class Combined:
    """Several models at once; at most one of them may say when clients are there.

    Examples
    --------
    >>> from feddr.delays import Job, Network, PerStep, Timing
    >>> both = Combined([PerStep(0.01), Network(latency=0.5)])
    >>> both.apply(Job(seed=0, client=0, number=0, steps=200, down=0, up=0), Timing())[:3]
    (0.5, 2.0, 0.5)
    """

    models: Sequence[Delay]

    def __post_init__(self) -> None:
        object.__setattr__(self, "models", tuple(self.models))
        there = [model for model in self.models if isinstance(model, Periodic | Windows | Trace)]
        if len(there) > 1:
            raise ValueError(f"At most one model may say when clients are there, got {there[0]} and {there[1]}.")

    def check(self, n: int) -> None:
        """Raise ValueError unless every model fits n clients."""
        for model in self.models:
            model.check(n)

    def apply(self, job: Job, timing: Timing) -> Timing:
        """Return the timing with the parts of all models."""
        for stream, model in enumerate(self.models):
            timing = model.apply(job._replace(stream=stream), timing)
        return timing
