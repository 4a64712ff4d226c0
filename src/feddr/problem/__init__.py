"""The problem: minimise F(x) = sum_i w_i f_i(x) + g(x).

Its modules::

    problem    Problem: loss, data, start and regulariser, and F, its gradient and the gradient mapping
    losses     losses of a model: cross-entropy, squared error, and what they ask of the data
    weights    the weights w_i of clients, and those of samples
    initial    the start x^0
"""

from feddr.problem.problem import Problem, Task, gradient_mapping

__all__ = ["Problem", "Task", "gradient_mapping"]
