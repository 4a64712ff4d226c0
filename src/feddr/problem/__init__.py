"""The problem: minimise F(x) = sum_i w_i f_i(x) + g(x).

Its modules::

    problem         Problem: loss, data, start and regulariser; F and the gradients of f and of each f_i
    losses          losses of a model: cross-entropy, squared error, and what they ask of the data
    weights         the weights w_i of clients, and those of samples
    initial         the start x^0
    stationarity    the gradient mapping, whose norm is 0 at stationary points of F only
"""

from feddr.problem.problem import Problem, Task
from feddr.problem.stationarity import gradient_mapping

__all__ = ["Problem", "Task", "gradient_mapping"]
