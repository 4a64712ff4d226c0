"""A regulariser that feddr does not have: the minimax concave penalty, which makes zeros and lets large weights be.

The l1 penalty pulls every weight towards zero, large ones too. The MCP (Zhang 2010) charges like l1 near zero, and
nothing more beyond gamma * strength:

    p(u) = strength |u| - u^2 / (2 gamma)   for |u| <= gamma * strength,   gamma * strength^2 / 2   beyond

A regulariser is any object with ``value`` and ``prox``. The prox is checked against a search on a grid; then both
penalties fit a sparse linear model over ten clients, each with the best of the same strengths on held-out samples.
The MCP is not convex, so that the theorems about FedDR do not speak of it; p(u) + u^2 / (2 gamma) is convex, and so
the prox is unique for eta < gamma. Whether the runs settled is printed.

The picture: penalty, prox, and the weights that come out beside the true ones.

    python examples/own_regulariser.py [--quick] [--out DIR]
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import common
import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from numpy.typing import NDArray

import feddr
from feddr import tree
from feddr.prox import L1, Regulariser

Array = NDArray[np.float64]

STRENGTHS = (0.0125, 0.025, 0.05, 0.1, 0.2)


@dataclass(frozen=True)
class MCP:
    """The sum of p(x_j) over all parameters, with the firm threshold of Gao and Bruce (1997) as its prox."""

    strength: float
    gamma: float = 3.0

    def value(self, x: Any) -> jax.Array:
        """Return g(x)."""
        cut = tree.map(lambda a: jnp.minimum(jnp.abs(a), self.gamma * self.strength), x)
        return sum((jnp.sum(self.strength * u - u**2 / (2 * self.gamma)) for u in tree.leaves(cut)), jnp.zeros(()))

    def prox(self, x: Any, eta: float | jax.Array) -> Any:
        """Return 0 up to eta strength, x from gamma strength on, and the line between them."""

        def firm(u: jax.Array) -> jax.Array:
            soft = feddr.prox.soft_threshold(u, eta * self.strength) / (1 - eta / self.gamma)
            return jnp.where(jnp.abs(u) <= self.gamma * self.strength, soft, u)

        return tree.map(firm, x)


@dataclass(frozen=True)
class Findings:
    """How far the prox is from the best point of a grid, in steps of the grid, and the fits."""

    prox_error: float
    mapping: float
    fits: pd.DataFrame


def prox_error(g: Regulariser, eta: float) -> float:
    """Return how far prox(x) is, at most, from the best point of a grid, in steps of the grid."""
    grid, points = np.linspace(-3, 3, 6001), np.linspace(-2, 2, 81)
    with jax.enable_x64(True):
        penalty = np.array(jax.vmap(g.value)(grid))
        best = grid[np.argmin(penalty + (grid - points[:, None]) ** 2 / (2 * eta), axis=1)]
        return float(np.abs(g.prox(points, eta) - best).max() / (grid[1] - grid[0]))


def federation(truth: Array) -> feddr.FederatedData:
    """Return ten clients whose features are correlated and centred differently, and noisy answers to them."""
    rng = np.random.default_rng(0)

    def samples(n: int, shift: Array) -> dict[str, Array]:
        x = shift + rng.normal(size=(n, len(truth))) + 0.7 * rng.normal(size=(n, 1))
        return {"x": x, "y": x @ truth + rng.normal(size=n)}

    shifts = rng.normal(0, 0.3, (10, len(truth)))
    return feddr.FederatedData.from_clients([samples(30, s) for s in shifts], [samples(30, s) for s in shifts])


def fit(g: Regulariser, data: feddr.FederatedData, size: int, rounds: int) -> tuple[Array, float, float]:
    """Return the weights, their error on held-out samples, and the norm of the gradient mapping at the end."""
    problem = feddr.Problem(
        loss=lambda w, batch: 0.5 * (batch["x"] @ w - batch["y"]) ** 2, data=data, init=np.zeros(size), g=g
    )
    result = feddr.simulate(
        problem,
        feddr.FedDR(eta=0.5, alpha=1.0),
        local=feddr.local.Accelerated(tol=1e-9),
        rounds=rounds,
        evaluate_every=rounds,
        precision="float64",
    )
    assert data.test is not None
    held = data.test.samples
    error = float(np.mean((held["x"] @ result.params - held["y"]) ** 2))
    return result.params, error, result.history.last.gradient_mapping


def main(argv: Sequence[str] | None = None) -> Findings:
    """Check the prox, fit with both penalties, print tables and draw the picture."""
    options = common.arguments(__doc__, argv)
    error = max(prox_error(MCP(0.5), eta) for eta in (0.1, 0.5, 1.0, 2.0))
    print(f"The prox of the MCP is within {error:.2f} steps of the best point of a grid, for four eta.\n")

    truth = np.zeros(40)
    truth[:6] = 2.0, -1.5, 1.0, -1.0, 0.7, 0.5
    data = federation(truth)
    strengths, rounds = (STRENGTHS[4:], 60) if options.quick else (STRENGTHS, 150)
    rows, best = [], {}
    for name, penalty in (("l1", L1), ("MCP", MCP)):
        fits = {s: fit(penalty(s), data, len(truth), rounds) for s in strengths}
        for s, (w, held, mapping) in fits.items():
            wrong, missed = np.sum(w[truth == 0] != 0), np.sum(w[truth != 0] == 0)
            rows.append((name, s, held, np.linalg.norm(w - truth), wrong, missed, mapping))
        best[name] = min(fits.values(), key=lambda one: one[1])[0]
    columns = ["penalty", "strength", "held-out error", "distance to truth", "not zero, wrongly", "missed", "mapping"]
    table = pd.DataFrame(rows, columns=columns)
    print(table.to_string(index=False, float_format="{:.3g}".format))
    common.save(draw(truth, best), options.out / "own_regulariser.png")
    return Findings(error, float(table["mapping"].max()), table)


def draw(truth: Array, best: dict[str, Array]) -> Figure:
    """Draw penalty, prox and weights."""
    figure, (left, middle, right) = common.panels([1, 1, 1.5])
    line = np.linspace(-2.5, 2.5, 501)
    penalties: dict[str, Regulariser] = {"l1": L1(0.5), "MCP": MCP(0.5)}
    for i, (name, g) in enumerate(penalties.items()):
        common.curve(left, line, np.array(jax.vmap(g.value)(line)), i, name)
        common.curve(middle, line, np.array(g.prox(line, 1.0)), i, name)
    middle.plot(line, line, color=common.GREY, linewidth=0.8, zorder=0)
    left.set(xlabel="weight", ylabel="penalty, strength 0.5", title="What a weight costs")
    middle.set(xlabel="weight", ylabel="after the prox, eta = 1", title="What the prox does")
    left.legend(frameon=False)
    place = np.arange(1, len(truth) + 1)
    right.bar(place, truth, color="#DDDDDD", label="truth", width=0.9)
    for (name, w), colour, marker in zip(best.items(), (common.BLUE, common.ORANGE), "os", strict=True):
        right.plot(place[w != 0], w[w != 0], marker, color=colour, markersize=4.5, label=f"{name}, where not zero")
    right.set(xlabel="feature", ylabel="weight", title="What comes out")
    right.legend(frameon=False)
    return figure


if __name__ == "__main__":
    main()
