"""Five minutes with feddr: what a problem is, what a run leaves behind, and how to resume after a break.

Thirty clients, each with a classifier of its own that it would prefer (synthetic-(1, 1)), agree on one network. FedAvg
averages what they trained; FedDR lets them meet at the solution of the joint problem, and with an l1 penalty it also
leaves out weights that count for little. All three see the same seed, batches and number of local steps.

The picture: training loss, test accuracy and zeros of the global model xbar against rounds.

    python examples/tour.py [--quick] [--out DIR]
"""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import common
import pandas as pd

import feddr
from feddr import tree


@dataclass(frozen=True)
class Findings:
    """The last rows, by method, and how far a run that was interrupted and resumed is from one that was not."""

    last: pd.DataFrame
    resumed: float


def main(argv: Sequence[str] | None = None) -> Findings:
    """Train three times, save, resume, print a table and draw the picture."""
    options = common.arguments(__doc__, argv)
    clients, rounds, epochs = (10, 8, 2) if options.quick else (30, 40, 20)

    # A problem: minimise F(x) = sum_i w_i f_i(x) + g(x), with f_i the mean loss over the samples of client i.
    data = feddr.datasets.synthetic(1, 1, num_clients=clients, seed=7)
    model = feddr.models.mlp([60, 32, 10])
    plain = feddr.Problem.classification(model, data, weights="samples")
    sparse = feddr.Problem.classification(model, data, g=feddr.prox.L1(3e-4), weights="samples")

    # A run: a problem, an algorithm, how clients solve their part, who takes part (everybody by default), a seed.
    local = feddr.local.SGD(lr=0.01, epochs=epochs, batch_size=10)
    run = partial(feddr.simulate, local=local, evaluate_every=2, seed=7)
    method = feddr.FedDR()  # its step sizes follow from the local work and from who takes part
    results = {
        "FedAvg": run(plain, feddr.FedAvg(), rounds=rounds),
        "FedDR": run(plain, method, rounds=rounds),
        "FedDR with l1": run(sparse, method, rounds=rounds),
    }

    # A history: one row for each evaluation, always at the global model xbar.
    columns = ["round", "F", "train_loss", "train_accuracy", "test_accuracy", "sparsity", "local_steps", "bytes_up"]
    last = pd.DataFrame({name: result.history.to_pandas()[columns].iloc[-1] for name, result in results.items()}).T
    print(last.round(4).to_string())

    # What is kept: history.csv, model.safetensors, settings.json and curves.png.
    folder = results["FedDR with l1"].save(options.out / "tour")
    print(f"\nSaved in {folder}: {', '.join(sorted(path.name for path in folder.iterdir() if path.is_file()))}")

    # A break: with a checkpoint the same call resumes where it was, and ends where it would have ended, bit for bit.
    checkpoint = folder / "checkpoint"
    shutil.rmtree(checkpoint, ignore_errors=True)
    run(sparse, method, rounds=rounds // 2, checkpoint=checkpoint)
    again = run(sparse, method, rounds=rounds, checkpoint=feddr.Checkpoint(checkpoint, resume=True))
    resumed = tree.norm(tree.sub(again.params, results["FedDR with l1"].params))
    print(f"Stopped after {rounds // 2} rounds and resumed: the model differs by {resumed} from the one above.")

    figure, axes = common.panels([1, 1, 1])
    for i, (name, result) in enumerate(results.items()):
        table = result.history.to_pandas()
        common.curve(axes[0], table["round"], table["train_loss"], i, name)
        common.curve(axes[1], table["round"], 100 * table["test_accuracy"], i, name)
        common.curve(axes[2], table["round"], 100 * table["sparsity"], i, name)
    axes[0].set(xlabel="round", ylabel="training loss at xbar")
    common.log_scale(axes[0])
    axes[1].set(xlabel="round", ylabel="test accuracy at xbar (%)")
    axes[2].set(xlabel="round", ylabel="zeros in xbar (%)")
    axes[1].legend(frameon=False)
    common.save(figure, options.out / "tour.png")
    print(f"""
What to try next:
    feddr report {folder}          the curves of a run as one HTML page
    feddr example first                      writes first.toml: seven methods on this problem, for feddr compare
    feddr theory --help                      step sizes with a guarantee
    python examples/heart_disease.py         a sparse model over four hospitals; more in examples/README.md""")
    return Findings(last, resumed)


if __name__ == "__main__":
    main()
