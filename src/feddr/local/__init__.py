"""Local solvers: how a client solves its subproblem."""

from feddr.local.accelerated import Accelerated
from feddr.local.optax import Optax
from feddr.local.sgd import SGD
from feddr.local.solver import LocalSolver, solve
from feddr.local.subproblem import Curvature, Solution, Subproblem

__all__ = ["SGD", "Accelerated", "Curvature", "LocalSolver", "Optax", "Solution", "Subproblem", "solve"]
