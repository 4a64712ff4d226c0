"""A Flower app for tests: FedDR or asyncFedDR on a problem whose solution is known, with clients that misbehave."""

from flwr.app import Context

import feddr
from feddr import flower
from feddr.secure import SecureAggregation

from .misbehave import misbehave
from .task import LOCAL, problem


def algorithm(context: Context) -> feddr.FedDR | feddr.AsyncFedDR:
    eta, alpha = float(context.run_config["eta"]), float(context.run_config["alpha"])
    method = feddr.AsyncFedDR if context.run_config["mode"] == "async" else feddr.FedDR
    bits = int(context.run_config["bits"])
    return method(eta, alpha, "lazy", mean="all", upload=feddr.compress.Quantised(bits) if bits else None)


def federation(context: Context) -> flower.Federation:
    clients = int(context.run_config["clients"])
    pooled = problem(list(range(clients)))
    return flower.Federation(pooled.init, clients, g=pooled.g, evaluation=pooled)


def sampling(context: Context) -> feddr.sampling.Sampling:
    participants = int(context.run_config["participants"])
    return feddr.sampling.Uniform(participants) if participants else feddr.sampling.Full()


def secure(context: Context) -> SecureAggregation | None:
    threshold = int(context.run_config["threshold"])
    return SecureAggregation(threshold, bits=28, clip=4.0) if threshold else None


server = flower.server_app(federation, algorithm, sampling=sampling, secure=secure)
client = flower.client_app(lambda client, _: problem([client]), algorithm, LOCAL, mods=[misbehave], secure=secure)
