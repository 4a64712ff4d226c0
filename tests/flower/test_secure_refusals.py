"""What cannot be had together with secure rounds is refused, with the reason."""

from pathlib import Path

import pytest

import feddr
from feddr import flower
from feddr.flower import leaving, secure_round
from feddr.privacy import SiteLevel
from tests.flower.fake_grid import FakeGrid
from tests.flower.federations import events
from tests.flower.secure_federations import METHOD, SITES, five, is_balanced, run


def test_a_compressor_beside_the_fixed_point_is_refused() -> None:
    secure_round.check_algorithm(feddr.FedDR())
    with pytest.raises(ValueError, match=r"have their own fixed point, got FedDR with upload=Quantised.*leave it out"):
        secure_round.check_algorithm(feddr.FedDR(upload=feddr.compress.Quantised(4)))


def test_the_noise_of_others_is_not_counted_on(tmp_path: Path) -> None:
    private = feddr.FedAvg(privacy=SiteLevel(clip=0.5, noise=2.0, delta=1e-3, sees="models"))
    with pytest.raises(ValueError, match='got sees="models"; use sees="uploads"'):
        run(FakeGrid(), tmp_path, private, five(g=False))


def test_late_answers_cannot_be_counted_in_secure_rounds(tmp_path: Path) -> None:
    """The same settings without secure rounds are fine."""
    settings = flower.settings.Settings(late="count", deadline=10.0, folder=tmp_path)
    settings.check(METHOD, SITES)
    with pytest.raises(ValueError, match=r'Secure rounds count nobody late, got late="count"; leave it out'):
        run(FakeGrid(), tmp_path, late="count", deadline=10.0)
    assert not (tmp_path / "server").exists()


def test_nobody_leaves_secure_rounds_for_good(tmp_path: Path) -> None:
    """Whoever asks is told so; a request that was written all the same changes nothing, and the run goes on."""
    grid = FakeGrid()
    run(grid, tmp_path, rounds=1)
    folder = tmp_path / "server" / "feddr"
    with pytest.raises(ValueError, match=r"does not know what it counts for one site, such as client 2; begin a run"):
        leaving.leave(folder, 2)
    assert not (folder / leaving.REQUESTS).exists()
    (folder / leaving.REQUESTS).mkdir()
    (folder / leaving.REQUESTS / "2").touch()
    run(grid, tmp_path, rounds=2)
    (refused,) = events(tmp_path, "leave_refused")
    assert (refused["client"], "does not know what it counts" in refused["reason"]) == (2, True)
    assert [event["clients"] for event in events(tmp_path, "counted")] == [[*range(SITES)]] * 2
    assert flower.read_run(folder).left == frozenset()
    is_balanced(tmp_path)
