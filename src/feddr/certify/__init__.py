"""What a run has shown: measurements, and certificates that compare them with the theory."""

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
