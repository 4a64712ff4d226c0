"""What cannot be had together with secure rounds is refused, with the reason."""

from pathlib import Path

import pytest

import feddr
from feddr.flower import secure_round
from feddr.privacy import SiteLevel
from tests.flower.fake_grid import FakeGrid
from tests.flower.secure_federations import five, run


def test_a_compressor_beside_the_fixed_point_is_refused() -> None:
    secure_round.check_algorithm(feddr.FedDR())
    with pytest.raises(ValueError, match=r"have their own fixed point, got FedDR with upload=Quantised.*leave it out"):
        secure_round.check_algorithm(feddr.FedDR(upload=feddr.compress.Quantised(4)))


def test_the_noise_of_others_is_not_counted_on(tmp_path: Path) -> None:
    private = feddr.FedAvg(privacy=SiteLevel(clip=0.5, noise=2.0, delta=1e-3, sees="models"))
    with pytest.raises(ValueError, match='got sees="models"; use sees="uploads"'):
        run(FakeGrid(), tmp_path, private, five(g=False))
