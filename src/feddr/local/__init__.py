"""Local solvers: how a client solves its subproblem."""

from feddr.local.accelerated import Accelerated
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
    "LocalSolver",
    "Optax",
    "Relative",
    "Solution",
    "SolverContext",
    "Stopping",
    "Subproblem",
    "Tolerance",
    "solve",
]
