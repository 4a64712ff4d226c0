"""When a certified solver may stop: the accuracies of the paper.

A rule sees a bound on the distance to the exact prox, how far the solver is from the client's last model, how many
steps it has taken, and the context of the client.
"""

from dataclasses import dataclass
from typing import Any, Protocol

from feddr.local.subproblem import SolverContext
from feddr.validation import scalars


class Stopping(Protocol):
    """A rule: whether a solver may stop where it is.

    Examples
    --------
    >>> rule: Stopping = Tolerance(1e-6)
    >>> rule.holds(error=1e-7, moved=1.0, steps=12, context=SolverContext())
    True
    """

    def holds(self, error: Any, moved: Any, steps: Any, context: SolverContext) -> Any:
        """Return whether to stop.

        Parameters
        ----------
        error
            A bound on ||x - prox||.
        moved
            ||x - x_i||, with x_i the client's last model, or the start where it has none.
        steps
            Gradient steps taken so far.
        context
            The round and the probability of the client.
        """


@dataclass(frozen=True)
class Tolerance:
    """||x - prox|| <= tol, the same in every round.

    Examples
    --------
    >>> Tolerance(1e-6).holds(1e-5, 1.0, 12, SolverContext())
    False
    """

    tol: float

    def __post_init__(self) -> None:
        scalars.positive(self, "tol")

    def holds(self, error: Any, moved: Any, steps: Any, context: SolverContext) -> Any:
        return error <= self.tol


@dataclass(frozen=True)
class Absolute:
    """||x - prox||^2 <= M / (2 (k + 1)^2) in round k (Tran-Dinh et al. 2021, remark on accuracies).

    The squares are summable, which is what Theorem 3.1 asks for; round 0 is the start-up round of ``init="full"``.

    Examples
    --------
    >>> Absolute(2.0).holds(error=0.1, moved=1.0, steps=5, context=SolverContext(round=9))
    False
    """

    M: float

    def __post_init__(self) -> None:
        scalars.positive(self, "M")

    def holds(self, error: Any, moved: Any, steps: Any, context: SolverContext) -> Any:
        return 2 * (context.round + 1) ** 2 * error**2 <= self.M


@dataclass(frozen=True)
class Relative:
    """||x - prox||^2 <= theta_hat p_i ||x - x_i||^2, with x_i the last iterate and p_i the client's probability.

    A client stops early while it moves far and works harder as the run settles (Tran-Dinh et al. 2021, theorem on
    relative accuracies, which needs theta_hat < 1/256).

    Parameters
    ----------
    theta_hat
        The accuracy.
    start
        The absolute tolerance of the start-up round of ``init="full"``: the theorem starts from an exact prox.

    Examples
    --------
    >>> rule = Relative(theta_hat=1e-3)
    >>> rule.holds(0.01, 1.0, 5, SolverContext(round=1)), rule.holds(0.1, 1.0, 5, SolverContext(round=1))
    (True, False)
    """

    theta_hat: float
    start: float = 1e-9

    def __post_init__(self) -> None:
        scalars.positive(self, "theta_hat", "start")

    def holds(self, error: Any, moved: Any, steps: Any, context: SolverContext) -> Any:
        relative = error**2 <= self.theta_hat * context.probability * moved**2
        return ((context.round == 0) & (error <= self.start)) | ((context.round > 0) & relative)


@dataclass(frozen=True)
class Epochs:
    """A fixed number of gradient steps, each over all of the client's samples, whatever the error.

    One more gradient tells how large that is. Where the curvature is an estimate, the gradients that test a step and
    those of steps that failed come on top.

    Examples
    --------
    >>> rule = Epochs(10)
    >>> rule.holds(0.5, 1.0, 9, SolverContext()), rule.holds(0.5, 1.0, 10, SolverContext())
    (False, True)
    """

    epochs: int

    def __post_init__(self) -> None:
        scalars.count(self, "epochs", 1)

    def holds(self, error: Any, moved: Any, steps: Any, context: SolverContext) -> Any:
        return steps >= self.epochs
