"""A problem whose solution is known: quadratics of different curvature, and an l1 norm."""

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

import feddr

DIMENSION = 4
STRENGTH = 0.3


def client_data(client: int) -> dict[str, NDArray[np.float64]]:
    rng = np.random.default_rng([7, client])
    return {"b": rng.normal(0.0, 2.0, (1, DIMENSION)), "h": np.array([1.6 + 0.4 * (client % 3)])}


def problem(clients: list[int]) -> feddr.Problem:
    """Return f_i(x) = h_i/2 ||x - b_i||^2 for the given clients, with equal weights, and g = 0.3 ||x||_1."""

    def curvature(i: int) -> tuple[float, float]:
        h = float(client_data(clients[i])["h"][0])
        return h, h

    return feddr.Problem(
        loss=lambda x, batch: 0.5 * batch["h"] * jnp.sum((x - batch["b"]) ** 2, axis=-1),
        data=feddr.FederatedData.from_clients([client_data(client) for client in clients]),
        init=np.zeros(DIMENSION),
        g=feddr.prox.L1(STRENGTH),
        curvature=curvature,
    )


def solution(clients: int) -> NDArray[np.float64]:
    """Return the minimiser: soft-thresholding of the weighted mean."""
    data = [client_data(client) for client in range(clients)]
    h = np.array([client["h"][0] for client in data])
    mean = sum(client["h"][0] * client["b"][0] for client in data) / h.sum()
    return np.asarray(np.sign(mean) * np.maximum(np.abs(mean) - STRENGTH / h.mean(), 0.0))


LOCAL = feddr.local.Accelerated(tol=1e-13)
