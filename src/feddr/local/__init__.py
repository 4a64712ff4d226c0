"""Local solvers: how a client minimises its subproblem.

Algorithms and solvers do not know each other; a subproblem is all that passes between them. The modules::

    subproblem     the one problem that an algorithm may ask a client to solve, and its solution
    solver         the protocol LocalSolver, and the one loop that runs every solver
    sgd            stochastic gradient descent
    geometric      a random number of gradient steps, the same for all clients of a round
    schedules      learning rates that change from round to round
    optax          any optimiser of optax
    accelerated    Nesterov's method with a bound on its distance to the exact prox (certified)
    stopping       accuracies at which a certified solver stops
    batches        random batches over epochs
    gradients      gradients over a batch, or over all samples of a client
    descent        plain, proximal, dual and decoupled steps, for algorithms that prescribe them
"""

from feddr.local import schedules
from feddr.local.accelerated import Accelerated
from feddr.local.geometric import Geometric
from feddr.local.optax import Optax
from feddr.local.sgd import SGD
from feddr.local.solver import LocalSolver, solve
from feddr.local.stopping import Absolute, Epochs, Relative, Stopping, Tolerance
from feddr.local.subproblem import Curvature, Estimate, Solution, SolverContext, Subproblem

__all__ = [
    "SGD",
    "Absolute",
    "Accelerated",
    "Curvature",
    "Epochs",
    "Estimate",
    "Geometric",
    "LocalSolver",
    "Optax",
    "Relative",
    "Solution",
    "SolverContext",
    "Stopping",
    "Subproblem",
    "Tolerance",
    "schedules",
    "solve",
]
