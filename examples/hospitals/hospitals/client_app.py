"""A hospital: it solves its own part, and keeps its patients."""

from feddr import flower
from hospitals.task import LOCAL, algorithm, problem

app = flower.client_app(problem, algorithm, LOCAL)
