"""Folders as runs leave them, made without running anything."""

import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from feddr.history import History, Row
from feddr.runs.stored import PARTICIPATION, Contribution, write_participation

CONFIG = """\
name = "{name}"
seed = {seed}
init_seed = 5
rounds = 40

[data]
name = "synthetic"
seed = 7
num_clients = 4

[model]
name = "softmax"
num_features = 60
num_classes = 3

[g]
name = "L1"
strength = 1e-3
"""

CLIENTS = """\
client,train,test,label_skew,cat,dog,cow
client 0,10,2,0.25,5,5,0
client 1,40,8,0.5,40,0,0
client 2,6,0,0.1,2,2,2
client 3,20,4,0.75,0,0,20
"""


def rows(number: int = 9, *, speed: float = 1.0, clock: bool = False) -> list[Row]:
    """A run that gets better: F falls and the accuracies rise."""
    made = []
    for k in range(number):
        done = 5 * k
        decay = math.exp(-speed * k / 4)
        made.append(
            Row(
                round=done,
                wall_time=0.3 * k,
                bytes_up=1000 * done,
                bytes_down=1000 * done,
                F=0.3 + 2 * decay,
                f=0.2 + 2 * decay,
                g=0.1,
                train_loss=0.2 + 1.9 * decay,
                train_accuracy=1 - 0.9 * decay,
                test_accuracy=0.95 - 0.9 * decay,
                gradient_mapping=decay**2,
                sparsity=1 - decay,
                local_steps=500 * done,
                time=2.0 * k if clock else math.nan,
                staleness_mean=2.5 if clock and k else math.nan,
            )
        )
    return made


def method(
    folder: Path, history: Iterable[Row], settings: Mapping[str, Any] | None = None, stale: bool = False
) -> None:
    """Write what one method leaves."""
    folder.mkdir(parents=True)
    History(list(history)).to_csv(folder / "history.csv")
    known = {"algorithm": "FedDR(eta=3.0)", "local": "SGD(lr=0.01)", "clients": 4, "seed": 0, **(settings or {})}
    (folder / "settings.json").write_text(json.dumps(known))
    parts = [
        Contribution(i, updates, 2, 1.5, 3.0) if stale else Contribution(i, updates)
        for i, updates in ((0, 8), (1, 3), (3, 5))
    ]
    write_participation(folder / PARTICIPATION, parts)


def experiment(
    folder: Path,
    labels: Iterable[str] = ("FedDR", "FedAvg"),
    *,
    name: str = "small",
    seed: int = 0,
    clock: bool = False,
) -> Path:
    """Write what ``feddr compare`` leaves of methods with these labels."""
    folder.mkdir(parents=True)
    text = CONFIG.format(name=name, seed=seed)
    for place, label in enumerate(labels):
        algorithm = label if label == "FedAvg" else "FedDR"
        text += f'\n[[algorithm]]\nname = "{algorithm}"\nlabel = "{label}"\n'
        method(folder / label, rows(speed=1 + 0.5 * place, clock=clock), stale=clock)
    (folder / "config.toml").write_text(text)
    (folder / "clients.csv").write_text(CLIENTS)
    return folder


CERTIFICATE = {
    "theorem": "Theorem 3.1 (FedDR, inexact)",
    "hypotheses": [
        {"name": "smoothness L", "requirement": "known", "value": "34.36", "holds": True},
        {"name": "step size eta", "requirement": "in (0, 0.1)", "value": "0.2", "holds": False},
    ],
    "measured": 9.75,
    "bound": 468.0,
    "facts": {"V at the start": 2.25},
    "refusals": [],
    "estimated": False,
    "certified": False,
    "ratio": 0.02083,
}

CLUSTER: dict[str, Any] = {
    "workers": [
        {"machine": "first", "process": 7, "shards": [0, 32], "clients": 2, "seconds": 2.5, "replaced": 0},
        {"machine": "second", "process": 9, "shards": [32, 64], "clients": 2, "seconds": 1.25, "replaced": 1},
    ],
    "threads": 2,
    "bytes": 2_400_000,
    "bytes_a_round": 60_000,
}
