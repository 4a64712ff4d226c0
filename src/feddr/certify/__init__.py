"""Certificates of convergence: what was measured in a run of FedDR, compared with the theorem that applies to it.

Its modules::

    clients        what is measured of the clients of some shards, wherever these are
    measure        the invariant xtilde = sum_i v_i xhat_i, the Lyapunov value and the prox errors of every round
    certificate    which theorem applies, whether its hypotheses hold, and how far below its bound the run was
"""

from feddr.certify.certificate import Certificate, Hypothesis, certificate
from feddr.certify.measure import Measurement, RoundMeasurements, bookkeeping_gap, lyapunov, measurements_for

__all__ = [
    "Certificate",
    "Hypothesis",
    "Measurement",
    "RoundMeasurements",
    "bookkeeping_gap",
    "certificate",
    "lyapunov",
    "measurements_for",
]
