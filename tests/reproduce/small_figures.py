"""Made-up histories and a miniature figure."""

from pathlib import Path

from feddr.history import History, Row
from feddr.reproduce import Experiment, Figure

TOML = """
name = "tiny"
rounds = 3
evaluate_every = 1
personal = true
weights = "samples"
[data]
name = "bundled"
which = "iris"
num_clients = 4
[model]
name = "softmax"
num_features = 4
num_classes = 3
[local]
name = "SGD"
lr = 0.1
[[algorithm]]
name = "FedAvg"
[[algorithm]]
name = "FedDR"
eta = 5.0
"""

TINY = Figure(
    "tiny", "A tiny figure", "Nothing is claimed.", (Experiment(("tiny",)),), x=("round",), budgets=("round",)
)


def experiments(folder: Path, text: str = TOML) -> Path:
    (folder / "tiny.toml").write_text(text)
    return folder


def history(accuracies: list[float], bytes_each: int = 1_000_000, steps_each: int = 10) -> History:
    """Return one row for the start and one for each round; a client's own accuracy is 0.05 higher."""
    rows = [Row(round=0, train_accuracy=0.1, train_loss=2.0, test_accuracy=0.1)]
    for k, accuracy in enumerate(accuracies, start=1):
        rows.append(
            Row(
                round=k,
                F=1.0 - accuracy,
                bytes_up=k * bytes_each,
                local_steps=k * steps_each,
                train_loss=1.0 - accuracy,
                train_accuracy=accuracy,
                test_accuracy=accuracy - 0.1,
                personal_train_loss=0.5,
                personal_train_accuracy=accuracy + 0.05,
                personal_test_accuracy=accuracy,
            )
        )
    return History(rows)
