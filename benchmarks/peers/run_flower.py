"""Flower's simulation engine: FedAvg, its Ray backend with one actor a thread, and a PyTorch client.

The server says which client a node plays, so that rounds have the cohorts of the other peers.
"""

import atexit
import logging
import os
import shutil
import sys
import tempfile
from importlib.metadata import version
from typing import Any

home = tempfile.mkdtemp(prefix="flwr-")
atexit.register(shutil.rmtree, home, ignore_errors=True)
os.environ |= {
    "FEDDR_BENCH_WORKLOAD": sys.argv[1],
    "FLWR_HOME": home,
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}

import flower_client  # noqa: E402
import measure  # noqa: E402
from flwr.app import ArrayRecord, ConfigRecord, Message, RecordDict  # noqa: E402
from flwr.serverapp import ServerApp  # noqa: E402
from flwr.serverapp.strategy import FedAvg  # noqa: E402
from flwr.simulation import run_simulation  # noqa: E402

logging.getLogger("flwr").setLevel(logging.ERROR)
work = measure.load(sys.argv[1])
clock = measure.Clock(work)


class Stop(Exception):  # noqa: N818
    """Time is up; Flower's loop has no other way out."""


class TimedFedAvg(FedAvg):  # type: ignore[misc]
    """FedAvg on given cohorts, which ticks the clock when a round has been aggregated."""

    def configure_train(self, server_round: int, arrays: Any, config: Any, grid: Any) -> Any:
        del config
        while len(nodes := sorted(grid.get_node_ids())) < work.num_clients:
            pass
        cohort = work.cohort(server_round - 1)
        return [
            Message(
                content=RecordDict({"arrays": arrays, "config": ConfigRecord({"client": i})}),
                message_type="train",
                dst_node_id=nodes[i],
            )
            for i in cohort
        ]

    def aggregate_train(self, server_round: int, replies: Any) -> Any:
        replies = list(replies)
        failed = [reply.error.reason for reply in replies if reply.has_error()]
        if failed:
            raise RuntimeError(failed[0])
        arrays, metrics = super().aggregate_train(server_round, replies)
        cohort = work.cohort(server_round - 1)
        stop = clock.tick(sum(map(work.steps, cohort)), len(cohort))
        if clock.loss is None:
            values = arrays.to_numpy_ndarrays()
            clock.loss = work.loss([(values[j].T, values[j + 1]) for j in range(0, len(values), 2)])
            clock.resume()
        if stop:
            raise Stop
        return arrays, metrics


def serve(grid: Any, context: Any) -> None:
    """Run rounds until time is up."""
    del context
    initial = ArrayRecord([array for weight, bias in work.init for array in (weight.T.copy(), bias)])
    strategy = TimedFedAvg(fraction_evaluate=0.0)
    try:
        strategy.start(grid=grid, initial_arrays=initial, num_rounds=1_000_000)
    except Stop:
        clock.report(
            f"run_simulation, Ray backend, {work.threads} actors of 1 CPU, PyTorch client with 1 thread, no evaluation",
            {name: version(name) for name in ("flwr", "ray", "torch")},
        )


server = ServerApp()
server.main()(serve)
run_simulation(
    server_app=server,
    client_app=flower_client.app,
    num_supernodes=work.num_clients,
    backend_config={
        "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
        "init_args": {"num_cpus": work.threads, "_temp_dir": home, "log_to_driver": False, "logging_level": "ERROR"},
    },
)
