"""Data sets, each a function that returns a ``feddr.data.FederatedData``; ``partition`` deals samples out."""

from feddr.datasets import partition as partition
from feddr.datasets.bundled import bundled
from feddr.datasets.femnist import femnist
from feddr.datasets.heart_disease import heart_disease
from feddr.datasets.leaf import leaf
from feddr.datasets.libsvm import libsvm
from feddr.datasets.mnist import mnist
from feddr.datasets.synthetic import synthetic, synthetic_iid
from feddr.datasets.tables import csv

__all__ = [
    "bundled",
    "csv",
    "femnist",
    "heart_disease",
    "leaf",
    "libsvm",
    "mnist",
    "synthetic",
    "synthetic_iid",
]
