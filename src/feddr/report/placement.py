"""Where clients computed, as a report shows it: the workers of a cluster, their machines and their work."""

from collections.abc import Mapping
from typing import Any

COUNTS = ("process", "clients", "replaced")


def placement(cluster: object) -> dict[str, Any] | None:
    """Return the workers of a run, given what its settings say of the cluster; None where there was none.

    Raises
    ------
    ValueError
        Where the settings are not what ``simulate_cluster`` has written.

    Examples
    --------
    >>> worker = {"machine": "a", "process": 7, "shards": [0, 64], "clients": 9, "seconds": 2.5, "replaced": 0}
    >>> shown = placement({"workers": [worker], "threads": 1, "bytes": 500, "bytes_a_round": 50})
    >>> shown["workers"][0]["shards"], shown["machines"], shown["bytes_a_round"]
    ([0, 64], 1, 50)
    """
    if cluster is None:
        return None
    if not isinstance(cluster, Mapping) or not isinstance(cluster.get("workers"), list):
        raise ValueError("cluster must be a table with a list of workers")
    workers = [_worker(worker) for worker in cluster["workers"]]
    return {
        "workers": workers,
        "machines": len({worker["machine"] for worker in workers}),
        **{name: _count(cluster, name) for name in ("threads", "bytes", "bytes_a_round")},
    }


def _worker(worker: object) -> dict[str, Any]:
    if not isinstance(worker, Mapping):
        raise ValueError(f"a worker must be a table, not a {type(worker).__name__}")
    shards, seconds = worker.get("shards"), worker.get("seconds")
    if not isinstance(shards, list) or len(shards) != 2 or not all(isinstance(shard, int) for shard in shards):
        raise ValueError("the shards of a worker must be two whole numbers")
    if not isinstance(seconds, int | float) or not 0 <= seconds < float("inf"):
        raise ValueError("the seconds of a worker must be a number")
    known = {"machine": str(worker.get("machine", "")), "shards": list(shards), "seconds": seconds}
    return known | {name: _count(worker, name) for name in COUNTS}


def _count(table: Mapping[str, Any], name: str) -> int:
    value = table.get(name)
    if not isinstance(value, int) or value < 0:
        raise ValueError(f"{name} must be a whole number, at least 0")
    return value
