"""Two slow clients among ten: wait for them, or take updates as they come.

A round of FedDR lasts as long as its slowest client, and the fast ones are idle meanwhile. AsyncFedDR takes each update
when it arrives, computed from a model that may be some versions old by then. Both minimise one objective with an l1
penalty, on one virtual clock with the same delays, until the same virtual time.

The picture: what the clients of AsyncFedDR do at first, where the number in a bar is the version of the model that the
client began with, and below it the objective F at xbar against time.

    python examples/asynchronous.py [--quick] [--out DIR]
"""

from collections.abc import Sequence
from dataclasses import dataclass

import common
import pandas as pd
from matplotlib.figure import Figure

import feddr
from feddr import plots
from feddr.engines.clock.events import Event

SECONDS = (1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7, 6.0, 8.0)
"""How long each client computes."""


@dataclass(frozen=True)
class Findings:
    """When the runs ended (s), the last row of each, and the largest staleness of an update."""

    ends: tuple[float, float]
    last: pd.DataFrame
    tau: int


def idle(events: Sequence[Event], end: float) -> float:
    """Return the share of the clients' time in which they had nothing to do."""
    return sum(event.end - event.start for event in events if event.kind == "idle") / (end * len(SECONDS))


def main(argv: Sequence[str] | None = None) -> Findings:
    """Run both until the same time, print a table and draw the picture."""
    options = common.arguments(__doc__, argv)
    rounds, epochs = (6, 2) if options.quick else (40, 5)
    data = feddr.datasets.synthetic(0.5, 0.5, num_clients=len(SECONDS), seed=0)
    model = feddr.models.mlp([60, 32, 10])
    problem = feddr.Problem.classification(model, data, g=feddr.prox.L1(1e-4), weights="samples")
    local = feddr.local.SGD(lr=0.01, epochs=epochs, batch_size=10)
    delays = feddr.delays.Combined([feddr.delays.Fixed(SECONDS), feddr.delays.Network(latency=0.1)])

    waiting = feddr.simulate(
        problem, feddr.FedDR(), local=local, clock=feddr.Clock(delays), rounds=rounds, evaluate_every=1
    )
    end = waiting.history.last.time
    taking = feddr.simulate_async(
        problem,
        feddr.AsyncFedDR(),
        local=local,
        clock=feddr.Clock(delays),
        updates=10_000,  # more than fit; the clock ends the run
        evaluate_every=10,
        callback=lambda progress: progress.row is not None and progress.row.time >= end,
    )
    results = {"FedDR, in rounds": waiting, "AsyncFedDR, as they come": taking}

    columns = ["time", "round", "local_steps", "F", "train_accuracy", "test_accuracy", "sparsity"]
    last = pd.DataFrame({name: result.history.to_pandas()[columns].iloc[-1] for name, result in results.items()})
    last.loc["idle share"] = [idle(result.events, result.history.last.time) for result in results.values()]
    print(last.round(3).to_string())
    print(f"\nThe oldest update of AsyncFedDR was computed from a model {taking.tau} versions old.")
    common.save(draw(results), options.out / "asynchronous.png")
    return Findings((end, taking.history.last.time), last, int(taking.tau or 0))


def draw(results: dict[str, feddr.Result]) -> Figure:
    """Draw the timeline of the last result, and the objective of all against time."""
    figure = plots.timeline(list(results.values())[-1].events, "AsyncFedDR: who computes when", end=12.0)
    figure.set_size_inches(10, 7.2)
    grid = figure.add_gridspec(2, 1, height_ratios=[1.3, 1])
    figure.axes[0].set_subplotspec(grid[0])
    axes = figure.add_subplot(grid[1])
    common.tidy(axes)
    for i, (name, result) in enumerate(results.items()):
        common.curve(axes, result.history.column("time"), result.history.column("F"), i, name)
    axes.set(xlabel="virtual time (s)", ylabel="objective F at xbar")
    common.log_scale(axes)
    axes.legend(frameon=False)
    return figure


if __name__ == "__main__":
    main()
