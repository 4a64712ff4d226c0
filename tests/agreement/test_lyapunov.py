"""The Lyapunov value never increases with certified proximal steps, everybody active and eta from the theory."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import feddr
from feddr import certify, precision, tree
from feddr.engines.shared.state import Progress
from feddr.tree import Tree

L = 12.0


def network(class_data: feddr.FederatedData, g: feddr.prox.Regulariser | None = None) -> feddr.Problem:
    model = feddr.models.mlp([5, 4, 3], activation="tanh")
    return feddr.Problem.classification(model, class_data, g=g, weights="samples", seed=3, curvature=(-L, L))


def largest_curvature(problem: feddr.Problem, i: int, points: list[Tree]) -> float:
    """The largest absolute eigenvalue of the Hessian of f_i at some points."""
    with precision.scope(np.float64):
        batch = precision.samples(problem.data.train.client(i), np.float64)
        _, restore = ravel_pytree(tree.map(jnp.asarray, points[0]))
        hessian = jax.jit(jax.hessian(lambda v: jnp.mean(problem.loss(restore(v), batch))))
        return max(float(np.max(np.abs(np.linalg.eigvalsh(hessian(ravel_pytree(x)[0]))))) for x in points)


@pytest.mark.parametrize(("alpha", "g"), [(0.5, None), (1.0, feddr.prox.L1(0.02)), (1.6, feddr.prox.L1(0.02))])
def test_v_never_increases(class_data: feddr.FederatedData, alpha: float, g: feddr.prox.Regulariser | None) -> None:
    problem = network(class_data, g)
    algorithm = feddr.FedDR(eta=0.99 * (2 - alpha) / (2 * L), alpha=alpha, init="full")
    values: list[float] = []
    points: list[Tree] = []

    def watch(progress: Progress) -> None:
        state = progress.state
        values.append(certify.lyapunov(problem, algorithm, state))
        if progress.round % 10 == 0:
            points.extend([state.server.xbar, *(c.x for c in state.clients.values())])

    feddr.simulate(
        problem,
        algorithm,
        local=feddr.local.Accelerated(tol=1e-11),
        rounds=40,
        precision="float64",
        evaluate_every=40,
        callback=watch,
    )
    largest = max(largest_curvature(problem, i, points) for i in range(4))
    assert largest < L, "the bound on the curvature must hold along the run"
    assert np.all(np.diff(values) <= 1e-10)
    assert values[-1] < values[0] - 0.01


def test_lazy_start_has_v_equal_to_f(class_data: feddr.FederatedData) -> None:
    problem = network(class_data)
    algorithm = feddr.FedDR(eta=0.05)
    result = feddr.simulate(problem, algorithm, local=feddr.local.SGD(lr=0.1), rounds=0, precision="float64")
    assert certify.lyapunov(problem, algorithm, result.state) == pytest.approx(result.history.last.F, abs=1e-12)


def test_v_by_hand() -> None:
    """f_i(x) = (x - t_i)^2 / 2 and g = |x| / 2 after some rounds, from the formula."""
    targets = [1.0, -2.0, 4.0]
    data = feddr.FederatedData.from_clients([{"t": np.array([t])} for t in targets])
    weights = [0.2, 0.3, 0.5]
    problem = feddr.Problem(
        lambda x, batch: 0.5 * (x - batch["t"]) ** 2, data, np.asarray(0.7), feddr.prox.L1(0.5), weights
    )
    algorithm = feddr.FedDR(eta=0.3, alpha=1.3)
    local, scheme = feddr.local.SGD(lr=0.2, batch_size=None), feddr.sampling.Uniform(1)
    state = feddr.simulate(problem, algorithm, local=local, sampling=scheme, rounds=2, precision="float64").state
    xbar, value = state.server.xbar, 0.5 * abs(state.server.xbar)
    for i, (t, w) in enumerate(zip(targets, weights, strict=True)):
        x = state.clients[i].x if i in state.clients else 0.7
        value += w * (0.5 * (x - t) ** 2 + (x - t) * (xbar - x) + (xbar - x) ** 2 / (2 * 0.3))
    assert certify.lyapunov(problem, algorithm, state) == pytest.approx(float(value), rel=1e-13)
