"""A network that says which of its hidden units it does not need, trained on digits that stay with their writers.

Group lasso with a group for each hidden unit, g(x) = strength * sum over units of ||incoming weights, bias, outgoing
weights||_2: its prox shortens a unit or sets all of it to zero, and a unit of zeros can be cut out. What is left is
written as a smaller dense network, which is read again and must give the same answers.

The picture: the norms of the units, and what fewer of them cost, for FedDR and FedDualAvg after the same local work.

    python examples/fewer_units.py [--data-dir FOLDER] [--quick] [--out DIR]
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import common
import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file

import feddr
from feddr import plots
from feddr.algorithms import Algorithm
from feddr.models import Model, mlp

UNITS = 64
METHODS: dict[str, Algorithm] = {
    "FedDR": feddr.FedDR(),
    "FedDualAvg": feddr.FedDualAvg(),
}


class Run(NamedTuple):
    """A trained network, the norm of each of its units, and its accuracies."""

    params: Any
    norms: NDArray[np.float32]
    train: float
    test: float

    @property
    def alive(self) -> int:
        """How many units are not zero."""
        return int(np.sum(self.norms > 0))


@dataclass(frozen=True)
class Findings:
    """Units left, the largest difference between the scores of the two networks, and the sizes of their files."""

    units: int
    difference: float
    bytes: tuple[int, int]


def digits(data_dir: str | None, quick: bool) -> feddr.FederatedData:
    """Return MNIST by writer, or without its files the digits of scikit-learn over clients that differ in labels."""
    if data_dir:
        return feddr.datasets.mnist("writer", num_clients=20 if quick else 50, data_dir=data_dir)
    print("No --data-dir: these are the 1,797 digits of scikit-learn, dealt out by Dirichlet(0.5), not MNIST.\n")
    return feddr.datasets.bundled("digits", partition="dirichlet", beta=0.5, num_clients=20)


def network(inputs: int) -> Model:
    """Return a network whose hidden units are the rows of one matrix: incoming weights, bias, outgoing weights.

    So the groups are rows. For layers as they are, GroupL2 takes lists of indices, at the price of a slower prox.
    """

    def init(seed: int) -> Any:
        first, last = mlp([inputs, UNITS, 10]).init(seed).values()
        return {"units": np.column_stack([first["weight"].T, first["bias"], last["weight"]]), "bias": last["bias"]}

    def apply(params: Any, x: jax.Array) -> jax.Array:
        into, bias, out = jnp.split(params["units"], [inputs, inputs + 1], axis=1)
        return jax.nn.relu(x @ into.T + bias[:, 0]) @ out + params["bias"]

    return Model(init, apply, num_outputs=10)


def train(method: str, strength: float, data: feddr.FederatedData, rounds: int) -> Run:
    """Train a network with group lasso."""
    problem = feddr.Problem.classification(
        network(data.train.samples["x"].shape[1]), data, g=feddr.prox.GroupL2(strength, "rows"), weights="samples"
    )
    result = feddr.simulate(
        problem,
        METHODS[method],
        local=feddr.local.SGD(lr=0.2, epochs=5, batch_size=10),
        sampling=feddr.sampling.Uniform(data.num_clients // 5),
        rounds=rounds,
        evaluate_every=rounds,
    )
    norms, last = np.linalg.norm(result.params["units"], axis=1), result.history.last
    return Run(result.params, norms, last.train_accuracy, last.test_accuracy)


def export(params: Any, alive: NDArray[np.bool_], path: Path) -> Any:
    """Write the layers of the chosen units as safetensors, and return what a reader finds in the file."""
    into, bias, out = np.split(params["units"][alive], [-11, -10], axis=1)
    layers = {"layer0.weight": into.T, "layer0.bias": bias[:, 0], "layer1.weight": out, "layer1.bias": params["bias"]}
    save_file({name: np.ascontiguousarray(array) for name, array in layers.items()}, path)
    found = load_file(path)
    return {
        layer: {"weight": found[f"{layer}.weight"], "bias": found[f"{layer}.bias"]} for layer in ("layer0", "layer1")
    }


def main(argv: Sequence[str] | None = None) -> Findings:
    """Train with each strength, cut the network down, print a table and draw the picture."""
    options = common.arguments(__doc__, argv, data=True)
    data = digits(options.data_dir, options.quick)
    assert data.test is not None
    strengths, rounds = ((0.02,), 25) if options.quick else ((0.0, 0.003, 0.01, 0.03), 60)
    runs = {(m, s): train(m, s, data, rounds) for m in METHODS for s in strengths}
    rows = [(m, s, run.alive, 100 * run.train, 100 * run.test) for (m, s), run in runs.items()]
    columns = ["method", "strength", "units", "train %", "test %"]
    print(pd.DataFrame(rows, columns=columns).to_string(index=False, float_format="{:.3g}".format))

    bar = max(run.train for run in runs.values()) - 0.06
    best = min((run for run in runs.values() if run.train > bar), key=lambda run: run.alive)
    paths = options.out / "network.safetensors", options.out / "smaller.safetensors"
    export(best.params, np.ones(UNITS, bool), paths[0])
    small = export(best.params, best.norms > 0, paths[1])
    x, left = jnp.asarray(data.test.samples["x"]), best.alive
    whole = network(x.shape[1]).apply(best.params, x)
    same = jnp.abs(mlp([x.shape[1], left, 10]).apply(small, x) - whole).max()
    before, after = (path.stat().st_size for path in paths)
    print(f"\n{paths[1]}: {left} of {UNITS} units, {after:,} of {before:,} bytes ({after / before:.0%}).")
    print(f"Its scores on {len(x):,} test digits differ from those of the whole network by at most {same:.1e}.")
    common.save(draw(runs), options.out / "fewer_units.png")
    return Findings(left, float(same), (before, after))


def draw(runs: dict[tuple[str, float], Run]) -> Figure:
    """Draw the norms of the units, and accuracy against units."""
    figure, (left, middle, right) = common.panels([1, 1, 1.2])
    longest = max(float(run.norms.max()) for run in runs.values())
    for method, axes in (("FedDR", left), ("FedDualAvg", middle)):
        some = {s: run for (m, s), run in runs.items() if m == method}
        for (strength, run), colour, line in zip(some.items(), plots.COLOURS, plots.LINES, strict=False):
            norms = np.sort(run.norms)[::-1]
            axes.plot(np.arange(1, UNITS + 1), norms, color=colour, linestyle=line, label=f"strength {strength:g}")
        axes.set(xlabel="hidden unit, longest first", ylabel="norm of its parameters", title=f"Units of {method}")
        axes.set_ylim(-0.1, 1.05 * longest)
    middle.legend(frameon=False, fontsize=8.5)
    styles = {"FedDR": (common.BLUE, "o", (-28, 4)), "FedDualAvg": (common.ORANGE, "s", (4, -11))}
    for method, (colour, marker, shift) in styles.items():
        points = {s: (run.alive, 100 * run.test) for (m, s), run in runs.items() if m == method}
        right.plot(*zip(*points.values(), strict=True), marker=marker, color=colour, label=method)
        for strength, place in points.items():
            text = f"{strength:g}"
            right.annotate(text, place, xytext=shift, textcoords="offset points", fontsize=8, color=colour)
    right.set(xlabel="units that are not zero", ylabel="test accuracy (%)", title="What it costs")
    right.margins(0.2, 0.12)
    right.legend(frameon=False, fontsize=8.5, loc="lower right")
    return figure


if __name__ == "__main__":
    main()
