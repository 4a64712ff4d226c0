"""A portfolio that six desks agree on without showing each other their trades: weights on the probability simplex.

Every desk has traded the same ten assets, in times of its own and at prices of its own. Together they look for the
long-only portfolio w, w >= 0 and sum w = 1, with the best quadratic utility over all of their days:

    minimise  mean over days of  gamma / 2 (r . w)^2 - r . w,      r a day's returns (%), gamma = 0.4

The loss is smooth and each desk has its own part of it; the simplex is g, whose prox is the projection. The answer
is compared with that of scipy on the pooled returns, and with what each desk would have chosen alone.

The picture: the weights of each desk alone, of the federation, and of the pooled returns.

    python examples/simplex.py [--quick] [--out DIR]
"""

from collections.abc import Sequence
from dataclasses import dataclass

import common
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import LinearConstraint, minimize

import feddr

Array = NDArray[np.float64]

ASSETS = 10
GAMMA = 0.4


@dataclass(frozen=True)
class Findings:
    """How far the federated weights are from the pooled ones, and how far they violate the constraints."""

    distance: float
    violation: float


def desks(days: int) -> list[Array]:
    """Return a table of daily returns in per cent for each desk: one market, and what each desk has seen of it."""
    rng = np.random.default_rng(0)
    mean, loadings = rng.normal(0.05, 0.08, ASSETS), rng.normal(0.6, 0.4, ASSETS)
    tables = []
    for desk in range(6):
        n = days * (1 + desk) // 2
        own = mean + rng.normal(0, 0.08, ASSETS)  # its times were good for other assets
        volatility = rng.uniform(0.5, 1.5, ASSETS)
        tables.append(own + np.outer(rng.normal(0, 1, n), loadings) + volatility * rng.normal(0, 1, (n, ASSETS)))
    return tables


def solved(returns: Array) -> Array:
    """Return the best weights for one table of returns, by scipy and then exactly on the assets that it chose."""
    a, b = GAMMA * returns.T @ returns / len(returns), returns.mean(axis=0)

    def loss(w: Array) -> float:
        return float(w @ a @ w / 2 - b @ w)

    def slope(w: Array) -> Array:
        return a @ w - b

    budget = LinearConstraint(np.ones((1, ASSETS)), 1.0, 1.0)
    start = np.full(ASSETS, 1 / ASSETS)
    found = minimize(loss, start, jac=slope, bounds=[(0, 1)] * ASSETS, constraints=budget, method="SLSQP", tol=1e-12)
    held = np.flatnonzero(found.x > 1e-6)
    system = np.block([[a[np.ix_(held, held)], np.ones((len(held), 1))], [np.ones((1, len(held))), np.zeros((1, 1))]])
    weights = np.zeros(ASSETS)
    weights[held] = np.linalg.solve(system, np.append(b[held], 1.0))[:-1]
    return weights


def main(argv: Sequence[str] | None = None) -> Findings:
    """Solve for each desk, for the federation and for the pooled returns; print a table and draw the picture."""
    options = common.arguments(__doc__, argv)
    tables = desks(days=100 if options.quick else 250)
    problem = feddr.Problem(
        loss=lambda w, batch: GAMMA / 2 * (batch["r"] @ w) ** 2 - batch["r"] @ w,
        data=feddr.FederatedData.from_clients([{"r": table} for table in tables]),
        init=np.full(ASSETS, 1 / ASSETS),
        g=feddr.prox.Simplex(),
        weights="samples",  # a day counts the same, whoever has seen it
    )
    result = feddr.simulate(
        problem,
        feddr.FedDR(eta=2.0, alpha=1.5),
        local=feddr.local.Accelerated(tol=1e-12),
        rounds=200,
        evaluate_every=200,
        precision="float64",
    )
    columns = {f"desk {i + 1}": solved(table) for i, table in enumerate(tables)}
    columns |= {"federated": result.params, "pooled": solved(np.concatenate(tables))}
    shown = pd.DataFrame(columns, index=[f"asset {j + 1}" for j in range(ASSETS)])
    shown.loc["utility"] = utility = [-problem.f(w) for w in columns.values()]
    print(shown.round(3).to_string())

    distance = float(np.abs(columns["federated"] - columns["pooled"]).max())
    violation = float(max(abs(result.params.sum() - 1), -result.params.min(), 0.0))
    print(f"\nNo federated weight is further than {distance:.1e} from the pooled one; the sum and the signs are within")
    print(f"{violation:.1e} of what they must be.")

    figure, (left, right) = common.panels([1.5, 1])
    place = np.arange(1, ASSETS + 1)
    for i in range(len(tables)):
        alone = 100 * columns[f"desk {i + 1}"]
        left.plot(place, alone, ".", color=common.GREY, markersize=9, label=None if i else "a desk alone")
    left.plot(place, 100 * columns["federated"], "o", color=common.BLUE, markersize=9, label="federated")
    left.plot(place, 100 * columns["pooled"], "x", color=common.BLACK, label="pooled")
    left.set(xlabel="asset", ylabel="weight (%)", title="The portfolio")
    left.set_xticks(place)
    left.legend(frameon=False)
    colours = [*[common.GREY] * len(tables), common.BLUE, common.BLACK]
    right.barh(list(columns), utility, color=colours)
    right.invert_yaxis()
    right.axvline(0, color=common.BLACK, linewidth=0.8)
    right.locator_params(axis="x", nbins=5)
    right.set(xlabel="utility over the days of all desks (% a day)", title="What it is worth to all")
    common.save(figure, options.out / "simplex.png")
    return Findings(distance, violation)


if __name__ == "__main__":
    main()
