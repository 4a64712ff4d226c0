"""The client of the Flower app, in a module of its own, so that the actors import it once and keep its data."""

import os
from functools import cache
from typing import Any

import measure
import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

app = ClientApp()


@cache
def setting() -> tuple[measure.Work, torch.nn.Sequential, list[tuple[torch.Tensor, torch.Tensor]]]:
    """The workload, a network, and the clients' tensors; once in each actor."""
    torch.set_num_threads(1)
    work = measure.load(os.environ["FEDDR_BENCH_WORKLOAD"])
    layers: list[torch.nn.Module] = []
    for weight, _ in work.init:
        layers += [torch.nn.Linear(*weight.shape), torch.nn.ReLU()]
    data = [work.client(i) for i in range(work.num_clients)]
    return work, torch.nn.Sequential(*layers[:-1]), [(torch.from_numpy(x), torch.from_numpy(y).long()) for x, y in data]


def train(message: Message, context: Context) -> Any:
    """Take the client's epochs from the global model and send back the result."""
    del context
    work, network, clients = setting()
    x, y = clients[message.content["config"]["client"]]
    received = [torch.from_numpy(array) for array in message.content["arrays"].to_numpy_ndarrays()]
    with torch.no_grad():
        for parameter, value in zip(network.parameters(), received, strict=True):
            parameter.copy_(value)
    optimiser = torch.optim.SGD(network.parameters(), lr=work.lr)
    for _ in range(work.epochs):
        for rows in torch.randperm(len(y)).split(work.batch_size):
            optimiser.zero_grad()
            torch.nn.functional.cross_entropy(network(x[rows]), y[rows]).backward()
            optimiser.step()
    arrays = ArrayRecord([parameter.detach().numpy() for parameter in network.parameters()])
    metrics = MetricRecord({"num-examples": len(y)})
    return Message(content=RecordDict({"arrays": arrays, "metrics": metrics}), reply_to=message)


app.train()(train)
