"""The workloads, written to files that every runner reads."""

import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import feddr
from feddr.engines.shared.randomness import sampling_rng

SEED = 0
LR = 0.01


@dataclass(frozen=True)
class Workload:
    """A federation and its local work; ``sizes`` is None for synthetic-(1, 1) with its own sizes."""

    name: str
    layers: tuple[int, ...]
    clients: int
    sampled: int
    epochs: int
    sizes: tuple[int, int] | None = None
    batch_size: int = 10

    def data(self) -> feddr.FederatedData:
        """Return the federation, with clients cut to whole batches, so that every peer takes equally many steps."""
        if self.sizes is None:
            part = feddr.datasets.synthetic(1, 1, num_clients=self.clients, seed=SEED).train
            return cut([part.client(i) for i in range(self.clients)], self.batch_size)
        rng = np.random.default_rng(SEED)
        inputs, classes = self.layers[0], self.layers[-1]
        teacher = rng.normal(size=(inputs, classes)).astype(np.float32)
        clients = []
        for _ in range(self.clients):
            size = int(rng.integers(self.sizes[0], self.sizes[1], endpoint=True))
            x = rng.random((size, inputs), dtype=np.float32)
            clients.append({"x": x, "y": np.argmax((x - 0.5) @ teacher, axis=1).astype(np.int32)})
        return cut(clients, self.batch_size)

    def write(self, folder: Path, **settings: Any) -> Path:
        """Write data, cohorts, initial weights and settings; return the path without its ending."""
        train = self.data().train
        sampling = feddr.sampling.Uniform(self.sampled)
        # The cohorts that feddr draws itself, so that all peers train the same clients.
        cohorts = [sampling.draw(self.clients, sampling_rng(SEED, k)) for k in range(1, 501)]
        init = feddr.models.mlp(self.layers).init(SEED)
        arrays: dict[str, Any] = {"offsets": train.offsets, "cohorts": np.stack(cohorts), **train.samples}
        for i in range(len(self.layers) - 1):
            layer = init[f"layer{i}"]
            arrays |= {f"weight{i}": layer["weight"].astype(np.float32), f"bias{i}": layer["bias"].astype(np.float32)}
        stem = folder / self.name
        np.savez(stem.with_suffix(".npz"), **arrays)
        common = {"name": self.name, "layers": self.layers, "epochs": self.epochs, "batch_size": self.batch_size}
        stem.with_suffix(".json").write_text(json.dumps({**common, "lr": LR, **settings}))
        return stem


def cut(clients: Sequence[Any], batch_size: int) -> feddr.FederatedData:
    """Leave out the samples of each client that do not fill a batch."""
    whole = [len(client["y"]) // batch_size * batch_size for client in clients]
    kept = zip(clients, whole, strict=True)
    return feddr.FederatedData.from_clients([{name: a[:n] for name, a in client.items()} for client, n in kept])


def flops(layers: Sequence[int], batch_size: int) -> int:
    """Return the floating-point operations of an SGD step of a fully connected network.

    Two for each weight and sample forwards, two for the gradient of the weight, two for the gradient of the layer's
    input (which the first layer does not need), and two for each parameter in the update.
    """
    weights = [inputs * outputs for inputs, outputs in itertools.pairwise(layers)]
    parameters = sum(weights) + sum(layers[1:])
    return batch_size * (6 * sum(weights) - 2 * weights[0]) + 2 * parameters


SMALL = Workload("small", (60, 32, 10), clients=30, sampled=10, epochs=20)
LARGE = Workload("large", (784, 128, 26), clients=50, sampled=10, epochs=5, sizes=(100, 400))
TINY = Workload("tiny", (60, 32, 10), clients=1000, sampled=100, epochs=1, sizes=(20, 20))
WORKLOADS = (SMALL, LARGE, TINY)
