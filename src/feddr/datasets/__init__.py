"""Data sets, each a function that returns a :class:`feddr.data.FederatedData`."""

from feddr.datasets.synthetic import synthetic, synthetic_iid

__all__ = ["synthetic", "synthetic_iid"]
