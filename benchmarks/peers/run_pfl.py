"""pfl-research: FederatedAveraging with its SimulatedBackend on tensors in memory, whose batches it caches.

Started by torchrun, its processes share out the clients of a round; it keeps the samples of a client in one order.
"""

import logging
import os
import sys
from importlib.metadata import version
from typing import Any

import measure
import torch
from pfl.aggregate.simulate import SimulatedBackend
from pfl.aggregate.weighting import WeightByDatapoints
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.callback.base import TrainingProcessCallback
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.pytorch import PyTorchTensorDataset
from pfl.hyperparam.base import NNEvalHyperParams, NNTrainHyperParams
from pfl.metrics import Metrics
from pfl.model.pytorch import PyTorchModel

work = measure.load(sys.argv[1])
clock = measure.Clock(work)
torch.set_num_threads(1)  # at this size two threads in an operation are slower than one
logging.disable(logging.WARNING)
rank, world = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))


class AfterRound(TrainingProcessCallback):  # type: ignore[misc]
    """Ticks the clock."""

    def after_central_iteration(self, aggregate_metrics: Any, model: Any, *, central_iteration: int) -> Any:
        del aggregate_metrics
        cohort = work.cohort(central_iteration)
        stop = clock.tick(sum(map(work.steps, cohort)), len(cohort))
        if clock.loss is None:
            values = [value.detach().numpy() for value in model.variable_map.values()]
            clock.loss = work.loss([(values[j].T, values[j + 1]) for j in range(0, len(values), 2)])
            clock.resume()
        if world > 1:  # the first process decides for all
            flag = torch.tensor([float(stop)])
            torch.distributed.broadcast(flag, 0)
            stop = bool(flag)
        return stop, Metrics()


def network() -> torch.nn.Sequential:
    """The network, with the ``loss`` and ``metrics`` that pfl asks for."""
    layers: list[torch.nn.Module] = []
    for weight, bias in work.init:
        layer = torch.nn.Linear(*weight.shape)
        layer.load_state_dict({"weight": torch.from_numpy(weight.T.copy()), "bias": torch.from_numpy(bias)})
        layers += [layer, torch.nn.ReLU()]
    found = torch.nn.Sequential(*layers[:-1])
    found.loss = lambda x, y: torch.nn.functional.cross_entropy(found(x), y)
    found.metrics = lambda *_: {}
    return found


def main() -> None:
    data = [work.client(i) for i in range(work.num_clients)]
    users = {
        i: PyTorchTensorDataset((torch.from_numpy(x), torch.from_numpy(y).long()), user_id=str(i))
        for i, (x, y) in enumerate(data)
    }
    order = (i for k in range(1_000_000) for i in shared_out(work.cohort(k)))
    model = network()
    FederatedAveraging().run(
        NNAlgorithmParams(
            central_num_iterations=1_000_000,
            evaluation_frequency=1_000_001,
            train_cohort_size=work.cohorts.shape[1],
            val_cohort_size=0,
        ),
        SimulatedBackend(
            FederatedDataset(users.__getitem__, lambda: next(order)), None, postprocessors=[WeightByDatapoints()]
        ),
        PyTorchModel(model, torch.optim.SGD, torch.optim.SGD(model.parameters(), lr=1.0)),
        NNTrainHyperParams(local_num_epochs=work.epochs, local_learning_rate=work.lr, local_batch_size=work.batch_size),
        NNEvalHyperParams(local_batch_size=None),
        callbacks=[AfterRound()],
        send_metrics_to_platform=False,
    )
    if rank == 0:
        clock.report(
            f"SimulatedBackend, {world} process(es), torch.set_num_threads(1), cached batches, no evaluation",
            {"pfl": version("pfl"), "torch": torch.__version__},
        )


def shared_out(cohort: list[int]) -> list[int]:
    """Order a round's clients so that processes that take turns get about equal work."""
    return sorted(cohort, key=work.steps, reverse=True)


main()
