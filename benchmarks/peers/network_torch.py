"""The networks of ``networks.py`` in PyTorch, and a plain loop over clients: one thread in each process.

python network_torch.py NETWORK LAUNCHED SIDE PROCESSES ROUNDS
"""

import itertools
import json
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from typing import Any

import numpy as np
import torch

CLIENTS, SAMPLES, EPOCHS, BATCH, LR = 4, 40, 5, 10, 0.01
TOKENS, LENGTH = 80, 40


class LSTM(torch.nn.Module):
    """Two layers of 128 over 40 characters; scores of the next one."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(TOKENS, 8)
        self.layers = torch.nn.LSTM(8, 128, 2, batch_first=True)
        self.scores = torch.nn.Linear(128, TOKENS)

    def forward(self, x: torch.Tensor) -> Any:
        return self.scores(self.layers(self.embedding(x))[0][:, -1])


class Transformer(torch.nn.Module):
    """Two layers of width 64 with 4 heads over 40 characters; scores of the next one."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(TOKENS, 64)
        self.positions = torch.nn.Parameter(0.02 * torch.randn(LENGTH, 64))
        layer = torch.nn.TransformerEncoderLayer(
            64, 4, 256, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        )
        self.layers = torch.nn.TransformerEncoder(layer, 2, torch.nn.LayerNorm(64), enable_nested_tensor=False)
        self.scores = torch.nn.Linear(64, TOKENS)
        self.register_buffer("mask", torch.nn.Transformer.generate_square_subsequent_mask(LENGTH))

    def forward(self, x: torch.Tensor) -> Any:
        states = self.layers(self.embedding(x) + self.positions, mask=self.mask, is_causal=True)
        return self.scores(states[:, -1])


def network(name: str) -> torch.nn.Module:
    """Return the network of a name: layers of widths, or one of three."""
    torch.manual_seed(0)
    if name == "lstm":
        return LSTM()
    if name == "transformer":
        return Transformer()
    layers: list[torch.nn.Module] = []
    if name == "cnn":
        layers += [torch.nn.Conv2d(1, 32, 5, padding=2), torch.nn.ReLU(), torch.nn.MaxPool2d(2)]
        layers += [torch.nn.Conv2d(32, 64, 5, padding=2), torch.nn.ReLU(), torch.nn.MaxPool2d(2), torch.nn.Flatten()]
    widths = [3136, 512, 62] if name == "cnn" else [int(width) for width in name.split("x")]
    for i, o in itertools.pairwise(widths):
        layers += [torch.nn.Linear(i, o), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers[:-1])


def clients(name: str) -> list[tuple[Any, Any]]:
    """Return the samples of the clients, the same for both sides; images are (rows, channels, height, width)."""
    rng, count = np.random.default_rng(0), CLIENTS * SAMPLES
    if name in ("lstm", "transformer"):
        x: Any = rng.integers(0, TOKENS, (count, LENGTH))
        y = rng.integers(0, TOKENS, count)
    else:
        inputs, classes = ((1, 28, 28), 62) if name == "cnn" else ((int(name.split("x")[0]),), int(name.split("x")[-1]))
        x, y = rng.random((count, *inputs), dtype=np.float32), rng.integers(0, classes, count)
    return [(x[i : i + SAMPLES], y[i : i + SAMPLES]) for i in range(0, count, SAMPLES)]


@cache
def setting(name: str) -> tuple[torch.nn.Module, list[tuple[torch.Tensor, torch.Tensor]]]:
    torch.set_num_threads(1)
    return network(name), [(torch.from_numpy(x), torch.from_numpy(y)) for x, y in clients(name)]


def train(job: tuple[str, int, dict[str, Any]]) -> dict[str, Any]:
    """Return a client's parameters after its epochs."""
    name, i, state = job
    module, data = setting(name)
    x, y = data[i]
    with torch.no_grad():
        for parameter, value in zip(module.parameters(), state.values(), strict=True):
            parameter.copy_(torch.as_tensor(value))
    optimiser = torch.optim.SGD(module.parameters(), lr=LR)
    for _ in range(EPOCHS):
        for rows in torch.randperm(len(y)).split(BATCH):
            optimiser.zero_grad()
            torch.nn.functional.cross_entropy(module(x[rows]), y[rows]).backward()
            optimiser.step()
    return {key: value.detach().numpy().copy() for key, value in module.named_parameters()}


def main() -> None:
    name, launched, processes, rounds = sys.argv[1], float(sys.argv[2]), int(sys.argv[4]), int(sys.argv[5])
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:processes])
    pool = ProcessPoolExecutor(processes) if processes > 1 else None
    module, _ = setting(name)
    state = {key: value.detach().numpy().copy() for key, value in module.named_parameters()}
    seconds, first = [], 0.0
    clock = time.perf_counter if pool else time.process_time
    for k in range(rounds + 2):
        begin = clock()
        jobs = [(name, i, state) for i in range(CLIENTS)]
        models = list((pool.map if pool else map)(train, jobs))
        state = {key: sum(model[key] for model in models) / CLIENTS for key in state}
        first = first or time.time() - launched
        if k >= 2:
            seconds.append(clock() - begin)
    if pool:
        pool.shutdown()
    steps = CLIENTS * EPOCHS * SAMPLES // BATCH
    print(json.dumps({"steps_per_second": steps / min(seconds), "first_round": first}), flush=True)


if __name__ == "__main__":
    main()
