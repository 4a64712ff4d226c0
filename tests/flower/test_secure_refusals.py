"""What cannot be had together with secure rounds is refused, with the reason."""

import pytest

import feddr
from feddr.flower import secure_round
from feddr.privacy import SiteLevel


def test_a_private_method_is_refused_in_secure_rounds() -> None:
    private = feddr.FedDR(privacy=SiteLevel(clip=0.5, noise=2.0, delta=1e-3))
    secure_round.check_algorithm(feddr.FedDR())
    with pytest.raises(ValueError, match=r"no account of privacy, got FedDR with privacy=SiteLevel.*leave it out"):
        secure_round.check_algorithm(private)
