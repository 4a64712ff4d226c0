"""A Flower app for tests: FedDR or asyncFedDR on a problem whose solution is known, with clients that misbehave."""

from dataclasses import replace
from typing import Any

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

import feddr
from feddr import flower
from feddr.flower.run import serve
from feddr.flower.settings import Settings
from feddr.secure import SecureAggregation

from .misbehave import misbehave
from .silence import Impatient, SilentClient, losses
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


plain = flower.server_app(federation, algorithm, sampling=sampling, secure=secure)
server = ServerApp()


@server.main()
def main(grid: Grid, context: Context) -> None:
    """Serve the run; where sites are to be lost, do not wait for them in vain."""
    if not losses(context):
        return plain(grid, context)
    settings = replace(Settings().overridden(context.run_config), secure=secure(context))
    assert settings.deadline is not None
    impatient: Any = Impatient(grid, losses(context), int(context.run_config["clients"]), settings.deadline)
    serve(impatient, federation(context), algorithm(context), sampling(context), settings, impatient)
    return None


client = SilentClient(
    flower.client_app(lambda client, _: problem([client]), algorithm, LOCAL, mods=[misbehave], secure=secure)
)
