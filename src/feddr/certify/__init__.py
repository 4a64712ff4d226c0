"""What a run has shown: measurements, and certificates that compare them with the theory."""

from feddr.certify.certificate import Certificate, Hypothesis, certificate
from feddr.certify.measure import Measurement, Watch, bookkeeping_gap, lyapunov, watch_for

__all__ = [
    "Certificate",
    "Hypothesis",
    "Measurement",
    "Watch",
    "bookkeeping_gap",
    "certificate",
    "lyapunov",
    "watch_for",
]
