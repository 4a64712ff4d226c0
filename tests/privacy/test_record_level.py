"""The Gaussian mechanism of each step: its sum of clipped gradients, its sensitivity, its noise; what it refuses."""

from collections.abc import Callable
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import feddr
from feddr import precision, tree
from feddr.local.gradients import ClientRows, clipped_gradient
from feddr.local.solver import Batches
from feddr.privacy import RecordLevel
from feddr.problem import losses
from feddr.problem.losses import PerSample
from feddr.tree import Tree

CLIP = 0.7
LINEAR = feddr.models.linear(4)
MODELS: list[tuple[Any, PerSample]] = [
    (LINEAR, losses.squared_error(LINEAR)),
    (one := feddr.models.mlp([4, 5, 3]), losses.cross_entropy(one)),
]


def records(rng: np.random.Generator, size: int) -> dict[str, Any]:
    return {"x": rng.normal(size=(size, 4)), "y": rng.integers(0, 3, size)}


def at_random(model: Any, rng: np.random.Generator) -> Tree:
    return tree.map(lambda a: rng.normal(size=np.shape(a)), model.init(0))


@cache
def compiled(loss: PerSample) -> Callable[..., Tree]:
    return jax.jit(lambda x, samples, rows, t: clipped_gradient(loss, samples, rows, CLIP)(x, t))


def step(loss: PerSample, x: Tree, samples: Any, size: int, batch: Any = None, used: Any = None, t: int = 0) -> Tree:
    """Return what the compiled oracle says of a step without noise, of the client with the last rows."""
    silent = tree.map(lambda a: np.zeros((1 if batch is None else len(batch), *np.shape(a))), x)
    rows = ClientRows(np.int32(len(samples["y"]) - size), np.int32(size), batch, used, silent)
    with precision.scope(np.float64):
        return tree.map(np.asarray, compiled(loss)(x, samples, rows, np.int32(t)))


@cache
def differentiated(loss: PerSample) -> Callable[..., Tree]:
    return jax.jit(jax.grad(lambda x, record: jnp.sum(loss(x, record))))


def one_by_one(loss: PerSample, x: Tree, samples: Any, rows: Any, clip: float = CLIP) -> Tree:
    """Return the sum of the clipped gradients of some records, each differentiated by itself."""
    total = tree.zeros_like(x)
    with precision.scope(np.float64):
        for j in rows:
            gradient = differentiated(loss)(x, {name: array[j : j + 1] for name, array in samples.items()})
            total = tree.add(total, tree.scale(min(1.0, clip / tree.norm(gradient)), gradient))
    return tree.map(np.asarray, total)


@pytest.mark.parametrize(("model", "loss"), MODELS, ids=["linear", "mlp"])
def test_a_step_has_the_sum_of_the_clipped_gradients_of_its_records(model: Any, loss: PerSample) -> None:
    """Over a batch that is full, over one that is not, and over all records of a client, more than a chunk of them."""
    rng = np.random.default_rng(0)
    samples, x = records(rng, 300), at_random(model, rng)
    batch, used = np.array([[3, 17, 40, 8], [9, 2, 0, 0]], np.int32), np.array([4, 2], np.int32)
    for t in (0, 1):
        value = step(loss, x, samples, 290, batch, used, t)
        expected = tree.scale(1 / 4, one_by_one(loss, x, samples, 10 + batch[t, : used[t]]))
        assert tree.norm(tree.sub(value, expected)) < 1e-12
    value = step(loss, x, samples, 290)
    assert tree.norm(tree.sub(value, tree.scale(1 / 290, one_by_one(loss, x, samples, range(10, 300))))) < 1e-12
    lengths = [tree.norm(one_by_one(loss, x, samples, [j], clip=np.inf)) for j in range(10, 40)]
    assert min(lengths) < CLIP < max(lengths)  # some are clipped, and some are not


def test_a_client_with_fewer_records_than_a_batch_divides_by_their_number() -> None:
    (model, loss), rng = MODELS[0], np.random.default_rng(1)
    samples, x = records(rng, 3), at_random(model, rng)
    batch, used = np.zeros((1, 8), np.int32), np.array([3], np.int32)
    batch[0, :3] = [2, 0, 1]
    value = step(loss, x, samples, 3, batch, used)
    assert tree.norm(tree.sub(value, tree.scale(1 / 3, one_by_one(loss, x, samples, range(3))))) < 1e-12


@pytest.mark.parametrize(("model", "loss"), MODELS, ids=["linear", "mlp"])
@pytest.mark.parametrize("other", [0.0, 1e-200, 1.0, 1e3, 1e200, np.inf, np.nan])
def test_another_record_moves_a_sum_by_twice_the_clip_at_most(model: Any, loss: PerSample, other: float) -> None:
    rng = np.random.default_rng(2)
    samples, x, size = records(rng, 12), at_random(model, rng), 12
    for j in range(3):
        neighbour = {name: array.copy() for name, array in samples.items()}
        neighbour["x"][j] = other * rng.normal(size=4) if np.isfinite(other) else other
        neighbour["y"][j] = (neighbour["y"][j] + 1) % 3
        sums = [tree.scale(size, step(loss, x, data, size)) for data in (samples, neighbour)]
        assert 0.0 < tree.norm(tree.sub(*sums)) <= 2 * CLIP * (1 + 1e-12)


@pytest.mark.parametrize(("size", "batch_size"), [(20, 5), (23, 5), (3, 8), (6, None)])
def test_a_record_is_in_one_batch_of_each_pass(size: int, batch_size: int | None) -> None:
    """So that a pass is one release: of the steps of a pass, the others do not depend on it but through models."""
    local = feddr.local.SGD(lr=0.1, epochs=4, batch_size=batch_size)
    drawn = local.batches(size, np.random.default_rng(0)) or Batches(
        np.tile(np.arange(size, dtype=np.int32), (4, 1)), np.full(4, size, np.int32)
    )
    steps = local.num_steps(size)
    assert len(drawn.rows) == steps
    for epoch in np.split(np.arange(steps), 4):
        rows = np.concatenate([drawn.rows[t][: drawn.used[t]] for t in epoch])
        np.testing.assert_array_equal(np.sort(rows), np.arange(size))


def test_the_gradient_of_one_record_is_clipped_to_the_length() -> None:
    privacy, rng = RecordLevel(2.0, 1.0, 1e-5), np.random.default_rng(3)
    way: Any = {"weight": rng.normal(size=(3, 2)), "bias": rng.normal(size=2)}
    for length in (0.0, 1e-300, 1.5, 2.0, 7.0, 1e150):
        gradient = tree.scale(length / tree.norm(way), way)
        clipped = privacy.clipped(gradient)
        assert tree.norm(clipped) == pytest.approx(min(length, 2.0), rel=1e-12)
        if length <= 2.0:
            assert clipped is gradient
    for wrong in (np.inf, np.nan):
        assert tree.norm(privacy.clipped({"weight": way["weight"], "bias": np.array([wrong, 1.0])})) == 0.0


def test_the_noise_is_gaussian_of_the_stated_size_and_anew_in_each_step() -> None:
    like = {"a": np.zeros((50, 20), np.float32), "b": np.zeros(300)}
    noise = RecordLevel(clip=3.0, noise=0.5, delta=1e-5).step_noise(8, like, np.random.default_rng(0))
    assert noise["a"].dtype == np.float32
    assert noise["b"].shape == (8, 300)
    for entries in (noise["a"], noise["b"]):
        assert entries.std() == pytest.approx(1.5, rel=0.05)
        assert abs(entries.mean()) < 0.1
        steps = np.corrcoef(entries.reshape(8, -1))
        assert np.abs(steps - np.eye(8)).max() < 0.3


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"clip": -1.0}, "clip must be positive and finite, got -1.0"),
        ({"noise": 0.0}, "noise must be positive and finite, got 0.0"),
        ({"delta": 0.0}, "delta must be above 0 and below 1, got 0.0"),
        ({"budget": 0.0}, "budget must be positive and finite, got 0.0"),
        ({"epochs": 0}, "epochs must be"),
    ],
)
def test_wrong_settings_are_refused(wrong: dict[str, object], message: str) -> None:
    settings: dict[str, object] = {"clip": 1.0, "noise": 1.0, "delta": 1e-5} | wrong
    with pytest.raises(ValueError, match=message):
        RecordLevel(**settings)  # type: ignore[arg-type]
