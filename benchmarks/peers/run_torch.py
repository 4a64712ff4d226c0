"""A plain PyTorch loop: a Sequential, cross-entropy, torch.optim.SGD, one client after the other, one thread.

With ``--processes`` the clients of a round are shared out, longest first, over as many worker processes as threads.
"""

import sys
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from typing import Any

import measure
import torch


@cache
def setting() -> tuple[measure.Work, torch.nn.Sequential, list[tuple[torch.Tensor, torch.Tensor]]]:
    """The workload, a network, and the clients' tensors; once in each process."""
    torch.set_num_threads(1)  # at this size two threads in an operation are slower than one
    work = measure.load(sys.argv[1])
    layers: list[torch.nn.Module] = []
    for weight, bias in work.init:
        layer = torch.nn.Linear(*weight.shape)
        layer.load_state_dict({"weight": torch.from_numpy(weight.T.copy()), "bias": torch.from_numpy(bias)})
        layers += [layer, torch.nn.ReLU()]
    data = [work.client(i) for i in range(work.num_clients)]
    return work, torch.nn.Sequential(*layers[:-1]), [(torch.from_numpy(x), torch.from_numpy(y).long()) for x, y in data]


def train(job: tuple[int, dict[str, Any]]) -> dict[str, torch.Tensor]:
    """Return client i's model after its epochs."""
    i, state = job
    work, network, clients = setting()
    x, y = clients[i]
    network.load_state_dict(state)
    optimiser = torch.optim.SGD(network.parameters(), lr=work.lr)
    for _ in range(work.epochs):
        for rows in torch.randperm(len(y)).split(work.batch_size):
            optimiser.zero_grad()
            torch.nn.functional.cross_entropy(network(x[rows]), y[rows]).backward()
            optimiser.step()
    return {name: value.clone() for name, value in network.state_dict().items()}


def main() -> None:
    work, network, clients = setting()
    pool = ProcessPoolExecutor(work.threads) if "--processes" in sys.argv else None
    clock, k = measure.Clock(work), 0
    state = {name: value.clone() for name, value in network.state_dict().items()}
    stop = False
    while not stop:
        cohort = sorted(work.cohort(k), key=work.steps, reverse=True)
        # NumPy arrays travel between processes with less ado than tensors.
        jobs = [(i, state) for i in cohort]
        models = pool.map(train_numpy, jobs, chunksize=chunk(cohort, work)) if pool else map(train, jobs)
        sizes = [len(clients[i][1]) for i in cohort]
        total = {name: torch.zeros_like(value) for name, value in state.items()}
        for size, model in zip(sizes, models, strict=True):
            for name, value in model.items():
                total[name] += torch.as_tensor(value) * (size / sum(sizes))
        state, k = total, k + 1
        stop = clock.tick(sum(map(work.steps, cohort)), len(cohort))
        if clock.loss is None:
            values = [value.numpy() for value in state.values()]
            clock.loss = work.loss([(values[j].T, values[j + 1]) for j in range(0, len(values), 2)])
            clock.resume()
    if pool:
        pool.shutdown()
    how = f"{work.threads} processes" if pool else "1 process"
    clock.report(f"{how}, torch.set_num_threads(1), no DataLoader", {"torch": torch.__version__})


def chunk(cohort: list[int], work: measure.Work) -> int:
    """Many short jobs travel in packets, few long ones alone."""
    return max(1, len(cohort) // (8 * work.threads))


def train_numpy(job: tuple[int, dict[str, Any]]) -> dict[str, Any]:
    i, state = job
    return {name: value.numpy() for name, value in train((i, state)).items()}


if __name__ == "__main__":
    main()
