"""The Gaussian mechanism of a site: its sensitivity, its noise, and what it refuses."""

import numpy as np
import pytest

from feddr import tree
from feddr.privacy import SiteLevel


class Silent(np.random.Generator):
    """A generator whose noise is zero, to see what it is added to."""

    def __init__(self) -> None:
        super().__init__(np.random.PCG64(0))

    def standard_normal(self, size: object = None, *_: object, **__: object) -> np.ndarray:  # type: ignore[override]
        return np.zeros(size)  # type: ignore[call-overload]


@pytest.mark.parametrize("length", [0.0, 1e-300, 0.3, 2.0, 1e6, 1e200, np.inf, np.nan])
def test_no_change_of_a_site_is_longer_than_the_clip(length: float) -> None:
    rng = np.random.default_rng(0)
    start = {"weight": rng.normal(size=(3, 2)), "bias": rng.normal(size=2)}
    way = {"weight": rng.normal(size=(3, 2)), "bias": rng.normal(size=2)}
    way = tree.scale(1.0 / tree.norm(way), way)
    with np.errstate(over="ignore", invalid="ignore"):
        x = tree.map(lambda s, w: s + length * w, start, way)
    moved = tree.sub(SiteLevel(2.0, 1.0, 1e-5).release(x, start, Silent()), start)
    assert tree.norm(moved) <= 2.0 * (1 + 1e-12)
    if length <= 2.0:
        np.testing.assert_allclose(moved["weight"], length * way["weight"], atol=1e-14)


def test_the_noise_is_gaussian_of_the_stated_size_in_every_coordinate() -> None:
    privacy, rng = SiteLevel(clip=3.0, noise=0.5, delta=1e-5), np.random.default_rng(1)
    zero = {"a": np.zeros(20_000), "b": np.zeros((100, 100))}
    noise = privacy.release(zero, zero, rng)
    for part in (noise["a"], noise["b"].ravel()):
        assert part.std() == pytest.approx(1.5, rel=0.03)
        assert abs(part.mean()) < 0.05
    assert abs(np.corrcoef(noise["a"][:10_000], noise["b"].ravel())[0, 1]) < 0.05


def test_a_release_keeps_types_and_shapes() -> None:
    x = {"a": np.ones((2, 3), np.float32), "b": np.float32(2.0)}
    out = SiteLevel(1.0, 1.0, 1e-5).release(x, tree.zeros_like(x), np.random.default_rng(0))
    assert out["a"].dtype == np.float32
    assert out["a"].shape == (2, 3)
    assert np.shape(out["b"]) == ()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"clip": 0.0}, "clip must be positive and finite, got 0.0"),
        ({"noise": float("inf")}, "noise must be positive and finite, got inf"),
        ({"delta": 1.0}, "delta must be above 0 and below 1, got 1.0"),
        ({"budget": -1.0}, "budget must be positive and finite, got -1.0"),
        ({"sees": "all"}, 'sees must be "uploads" or "models", got \'all\''),
    ],
)
def test_wrong_settings_are_refused(wrong: dict[str, object], message: str) -> None:
    settings: dict[str, object] = {"clip": 1.0, "noise": 1.0, "delta": 1e-5} | wrong
    with pytest.raises(ValueError, match=message):
        SiteLevel(**settings)  # type: ignore[arg-type]
