"""The picture and the numbers of docs/WHY.md: python docs/make_why.py, some minutes."""

import contextlib
import io
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

import feddr
from feddr import plots
from feddr.history import Row

PICTURE = Path(__file__).parent / "pictures" / "why.png"
SEED = 3
LOCAL = feddr.local.SGD(lr=0.01, epochs=20, batch_size=10)


def main() -> None:
    """Run the experiments, print their numbers, and draw the picture."""
    figure = Figure(figsize=(10.0, 7.2), layout="constrained")
    (start, momentum), (eta, mean) = figure.subplots(2, 2)
    where_work_starts(start)
    momentum_of_alpha(momentum)
    eta_beside_work(eta)
    whose_models(mean)
    plots.save(figure, PICTURE)


def problem(seed: int = SEED) -> feddr.Problem:
    """Thirty clients that differ a lot."""
    data = feddr.datasets.synthetic(1, 1, num_clients=30, seed=seed)
    return feddr.Problem.classification(feddr.models.mlp([60, 32, 10]), data, weights="samples")


def run(
    algorithm: Any, rounds: int, local: Any = LOCAL, sampling: Any = None, every: int = 1, **options: Any
) -> list[Row]:
    """Return the rows of a run, without the line that says which step sizes it chose."""
    with contextlib.redirect_stderr(io.StringIO()):
        result = feddr.simulate(
            problem(),
            algorithm,
            local=local,
            rounds=rounds,
            sampling=sampling,
            seed=SEED,
            evaluate_every=every,
            **options,
        )
    return result.history.rows


def where_work_starts(axes: Axes) -> None:
    """Draw F at xbar for both starts, and print the accuracies of global and own models."""
    lines = {
        "start xbar": feddr.FedDR(),
        "start own": feddr.FedDR(start="own"),
        "published: start own, eta 1000, alpha 1.95": feddr.FedDR(1000.0, 1.95, "lazy", "own", "all"),
        "FedAvg": feddr.FedAvg(),
    }
    for i, (label, algorithm) in enumerate(lines.items()):
        rows = run(algorithm, 40, personal=not isinstance(algorithm, feddr.FedAvg))
        last = rows[-1]
        print(
            f"{label}: F {last.F:.3f}, train accuracy {last.train_accuracy:.3f}, test {last.test_accuracy:.3f}, "
            f"own models train {last.personal_train_accuracy:.3f}, test {last.personal_test_accuracy:.3f}"
        )
        draw(axes, [row.round for row in rows], [row.F for row in rows], i, label)
    finish(axes, "round", "F at xbar", "Where local work starts, everybody in a round")


def momentum_of_alpha(axes: Axes) -> None:
    """Draw F for several alpha beside the recursion that local work shorter than eta follows."""
    short = feddr.local.SGD(lr=0.1, batch_size=None)
    for i, alpha in enumerate((2.0, 1.5, 1.1, 1.0)):
        rows = run(feddr.FedDR(1e9, alpha, "lazy"), 60, short)
        draw(
            axes, [row.round for row in rows], [row.F for row in rows], i, f"alpha = {alpha:g}, momentum {2 - alpha:g}"
        )
        print(f"one full-batch step a round, eta 1e9, alpha {alpha:g}: F {rows[-1].F:.3f} after 60 rounds")
    finish(axes, "round", "F at xbar", "alpha is momentum: one step a round, eta huge")


def eta_beside_work(axes: Axes) -> None:
    """Draw the last F against eta / T for several lengths of local work."""
    factors = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)
    for i, (lr, epochs) in enumerate(((0.01, 20), (0.01, 5), (0.03, 5), (0.003, 10))):
        local = feddr.local.SGD(lr=lr, epochs=epochs, batch_size=10)
        T = float(np.mean([local.work(int(size)) for size in problem().data.sizes]))
        last = [run(feddr.FedDR(c * T, 1.1), 30, local, every=30)[-1].F for c in factors]
        print(f"lr {lr}, {epochs} epochs, T = {T:.3g}: F {dict(zip(factors, np.round(last, 3).tolist(), strict=True))}")
        draw(axes, factors, last, i, f"lr {lr:g}, {epochs} epochs: T = {T:.2g}", every=1)
    axes.set_xscale("log")
    finish(axes, "eta / T", "F at xbar after 30 rounds", "What counts is eta beside the length T of local work")


def whose_models(axes: Axes) -> None:
    """Draw F for both means where six of thirty clients take part."""
    lines = {
        'mean = "active"': feddr.FedDR(),
        'mean = "all" (Algorithm 1)': feddr.FedDR(mean="all"),
        "FedAvg": feddr.FedAvg(),
    }
    for i, (label, algorithm) in enumerate(lines.items()):
        rows = run(algorithm, 120, sampling=feddr.sampling.Uniform(6), every=4)
        print(f"6 of 30, {label}: F {rows[-1].F:.3f} after 120 rounds, {rows[len(rows) // 4].F:.3f} after 30")
        draw(axes, [row.round for row in rows], [row.F for row in rows], i, label)
    finish(axes, "round", "F at xbar", "Whose models are averaged, six of thirty in a round")


def draw(axes: Axes, x: Any, y: Any, i: int, label: str, every: int = 8) -> None:
    """Draw a curve that colour, line and marker tell from the others."""
    axes.plot(
        x,
        y,
        color=plots.COLOURS[i],
        marker=plots.MARKERS[i],
        linestyle=plots.LINES[i],
        markersize=4,
        markevery=every,
        linewidth=1.6,
        label=label,
    )


def finish(axes: Axes, x: str, y: str, title: str) -> None:
    """Label a panel."""
    axes.set(xlabel=x, ylabel=y, yscale="log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set_title(title, fontsize=10)
    axes.grid(alpha=0.25, linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8)


if __name__ == "__main__":
    main()
