"""Options that every engine has, validated in one place."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from feddr import precision as precisions
from feddr.algorithms import Algorithm, check
from feddr.algorithms.algorithm import HasRegulariser
from feddr.early_stopping import StopWhen
from feddr.engines.shared import privacy
from feddr.engines.shared.client_store import BUDGET
from feddr.engines.shared.stopper import Stopper
from feddr.metrics.metric import Metric, MetricFunction, choose, named, needed
from feddr.sampling import Sampling
from feddr.theory.advice import Resolved
from feddr.validation import kinds, scalars

OnBadClient = Literal["stop", "skip"]
"""What to do about a client that sends a NaN or an infinity."""


@dataclass(frozen=True)
class EngineOptions:
    """What every engine may be asked; ``feddr.simulate`` describes the fields.

    The metric that a run is to stop by is measured, whether it is among the ``metrics`` or not.
    """

    sampling: Sampling
    seed: int = 0
    precision: str = "float32"
    evaluate_every: int = 10
    personal: bool = False
    client_memory: int = BUDGET
    on_bad_client: OnBadClient = "stop"
    verbose: bool = True
    metrics: Sequence[str | Metric | MetricFunction] = ()
    per_client: bool = False
    stop_when: StopWhen | str | None = None

    def __post_init__(self) -> None:
        kinds.like("sampling", self.sampling, "draw", "feddr.sampling.Uniform(10)")
        scalars.count(self, "seed", 0)
        scalars.count(self, "evaluate_every", 1)
        if self.on_bad_client not in ("stop", "skip"):
            raise ValueError(f'on_bad_client must be "stop" or "skip", got {self.on_bad_client!r}.')
        assert self.dtype is not None  # a wrong precision is refused here
        rule = StopWhen.of(self.stop_when)
        object.__setattr__(self, "stop_when", rule)
        asked = [(metric.name, metric.part) for metric in choose(self.metrics)]  # refuses a metric that there is not
        name, per_client = needed("" if rule is None or rule.metric is None else rule.metric)
        object.__setattr__(self, "per_client", self.per_client or per_client)
        if name is not None and (named(name).name, named(name).part) not in asked:
            object.__setattr__(self, "metrics", (*self.metrics, name))

    @cached_property
    def chosen(self) -> tuple[Metric, ...]:
        """The metrics that were asked for."""
        return choose(self.metrics)

    def stopper(self) -> Stopper:
        """Return what ends a run early."""
        return Stopper(StopWhen.of(self.stop_when), self.chosen, self.verbose)

    @property
    def asked(self) -> dict[str, Any]:
        """What was asked of the evaluations beyond the usual, in words; empty where nothing was."""
        names = [f"{metric.part}_{metric.name}" if metric.part else metric.name for metric in self.chosen]
        return {**({"metrics": names} if names else {}), **({"per_client": True} if self.per_client else {})}

    @property
    def dtype(self) -> np.dtype[Any]:
        """The precision as a type of NumPy."""
        return precisions.of(self.precision)

    def check(self, algorithm: Algorithm, problem: HasRegulariser, local: Any = None) -> None:
        """Refuse an algorithm that cannot handle the problem, or these options, and what is none."""
        kinds.like("algorithm", algorithm, "subproblem", "feddr.FedDR()")
        if local is not None:
            kinds.like("local", local, "num_steps", "feddr.local.SGD(lr=0.01)")
        if not hasattr(problem, "data"):
            raise ValueError(
                f"problem must be a feddr.Problem, got a {type(problem).__name__}; use Problem.classification or "
                "Problem.regression."
            )
        check_on_bad_client(self.on_bad_client, algorithm)
        check(algorithm, problem, self.sampling)
        privacy.check(algorithm, problem, self.sampling, local)

    def announce(self, resolved: Resolved) -> None:
        """Print to the standard error how step sizes that were "auto" were chosen, unless it is to be silent."""
        if self.verbose and resolved.words:
            print(f"{type(resolved.algorithm).__name__}: {resolved.in_short or resolved.words}", file=sys.stderr)


def check_on_bad_client(on_bad_client: str, algorithm: Algorithm) -> None:
    """Refuse to leave clients out where the algorithm needs every one of them."""
    if on_bad_client == "skip" and not algorithm.partial:
        name = type(algorithm).__name__
        raise ValueError(f'{name} needs every client in every round, got on_bad_client="skip"; use FedDR, or "stop".')
