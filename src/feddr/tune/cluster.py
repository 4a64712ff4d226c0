"""The executor on a Ray cluster, whose machines have feddr installed."""

import platform
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from feddr.config import ConfigError
from feddr.engines.workers.connection import check_versions, connected, versions
from feddr.tune.jobs import RunRecord, RunSpec, record
from feddr.tune.pool import TRIES
from feddr.tune.worker import answer

OBJECT_STORE = 100_000_000
"""Bytes for the objects of a Ray that is started here; jobs and their records are small."""


def receive(job: RunSpec, line: str) -> RunRecord:
    """Return the record of a job from the line that came back."""
    del job
    return RunRecord.loads(line)


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
    answer
        What a machine of the cluster does with the line of a job, a function of a module that is installed there.
    receive
        From a job and the answer to its record, on this machine.

    Examples
    --------
    >>> Ray("ray://head:10001", workers=64).workers
    64
    """

    address: str
    workers: int | None = None
    answer: Callable[[str], str] = answer
    receive: Callable[[RunSpec, str], RunRecord] = receive

    def __call__(self, jobs: Iterator[RunSpec]) -> Iterator[RunRecord]:
        """Return the records as they come.

        Raises
        ------
        ValueError
            Where there is no cluster at the address, or one of its machines has other versions than this one.
        """
        with connected(self.address, self.workers or 1, "--ray", OBJECT_STORE) as ray:
            yield from self._run(ray, jobs, self.workers or cores(ray))

    def _run(self, ray: Any, jobs: Iterator[RunSpec], workers: int) -> Iterator[RunRecord]:
        task = ray.remote(num_cpus=1, max_retries=TRIES - 1)(checked)
        here = versions()
        under_way: dict[Any, RunSpec] = {}
        try:
            while True:
                while len(under_way) < workers and (job := next(jobs, None)) is not None:
                    under_way[task.remote(self.answer, job.dumps(), here)] = job
                if not under_way:
                    return
                # With a timeout, so that Ctrl-C is noticed.
                ready, _ = ray.wait(list(under_way), num_returns=1, timeout=0.5)
                for reference in ready:
                    job = under_way.pop(reference)
                    try:
                        line = ray.get(reference)
                    except ray.exceptions.RayError as error:
                        if isinstance(cause := getattr(error, "cause", None), OtherVersions):
                            raise ConfigError(str(cause)) from None
                        yield record(job, "failed", reason=f"Ray lost the run: {error}")
                    else:
                        yield self.receive(job, line)
        finally:
            for reference in under_way:
                ray.cancel(reference, force=True)


class OtherVersions(ValueError):  # noqa: N818  it is a refusal, and travels from a machine of the cluster
    """A machine of the cluster has other versions than the driver."""


def checked(answer: Callable[[str], str], line: str, here: Mapping[str, str]) -> str:
    """Answer the line of a job on a machine with the versions of the driver, and refuse on any other."""
    try:
        check_versions(platform.node(), versions(), here)
    except ValueError as error:
        raise OtherVersions(str(error)) from None
    return answer(line)


def cores(ray: Any) -> int:
    """Return how many cores a cluster has, that is jobs at a time."""
    return max(int(ray.cluster_resources().get("CPU", 1)), 1)
