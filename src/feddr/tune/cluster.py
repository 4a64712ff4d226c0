"""The executor on a Ray cluster, whose machines have feddr installed."""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from feddr.config import ConfigError
from feddr.tune.jobs import RunRecord, RunSpec, record
from feddr.tune.pool import TRIES

OBJECT_STORE = 100_000_000
"""Bytes for the objects of a Ray that is started here; jobs and their records are small."""


@dataclass(frozen=True)
class Ray:
    """Run jobs as tasks of Ray, one core each.

    A Ray that this process is connected to already is used as it is, and left open.

    Parameters
    ----------
    address
        ``"auto"``, ``"host:6379"``, ``"ray://host:10001"``, or ``"local"`` for a Ray that is started for this search.
    workers
        Jobs at a time; as many as the cluster has cores by default.

    Examples
    --------
    >>> Ray("ray://head:10001", workers=64).workers
    64
    """

    address: str
    workers: int | None = None

    def __call__(self, jobs: Iterator[RunSpec]) -> Iterator[RunRecord]:
        """Return the records as they come."""
        ray = _import()
        initialised = ray.is_initialized()
        if not initialised:
            self._connect(ray)
        try:
            yield from _run(ray, jobs, self.workers or int(ray.cluster_resources().get("CPU", 1)))
        finally:
            if not initialised:
                ray.shutdown()

    def _connect(self, ray: Any) -> None:
        local: dict[str, Any] = {}
        if self.address == "local":
            local = {"num_cpus": self.workers, "include_dashboard": False, "object_store_memory": OBJECT_STORE}
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", FutureWarning)  # Ray's own plans
                ray.init(address=self.address, log_to_driver=False, logging_level="WARNING", **local)
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise ConfigError(
                f'--ray needs the address of a Ray cluster, or "local", got {self.address}: {error}'
            ) from None


def _run(ray: Any, jobs: Iterator[RunSpec], workers: int) -> Iterator[RunRecord]:
    from feddr.tune.worker import answer

    task = ray.remote(num_cpus=1, max_retries=TRIES - 1)(answer)
    under_way: dict[Any, RunSpec] = {}
    try:
        while True:
            while len(under_way) < workers and (job := next(jobs, None)) is not None:
                under_way[task.remote(job.dumps())] = job
            if not under_way:
                return
            # With a timeout, so that Ctrl-C is noticed.
            ready, _ = ray.wait(list(under_way), num_returns=1, timeout=0.5)
            for reference in ready:
                job = under_way.pop(reference)
                try:
                    yield RunRecord.loads(ray.get(reference))
                except ray.exceptions.RayError as error:
                    yield record(job, "failed", reason=f"Ray lost the run: {error}")
    finally:
        for reference in under_way:
            ray.cancel(reference, force=True)


def _import() -> Any:
    try:
        import ray
    except ImportError:
        raise ConfigError("--ray needs Ray, which is not installed; pip install 'feddr[ray]'.") from None
    return ray
