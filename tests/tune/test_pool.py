"""Who does the runs: processes that may be killed, and Ray."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from feddr.engines.workers.connection import versions
from feddr.tune import Processes, Ray, RunSpec, plan, serial
from feddr.tune.cluster import OtherVersions, checked
from tests.tune.small_searches import TOML, raw

FAKE = """
import json, os, signal, sys, time
from pathlib import Path
for line in sys.stdin:
    job = json.loads(line)
    do, mark = job["config"].get("do"), Path(job["config"].get("mark", ""))
    if do == "die" or (do == "die once" and not mark.exists()):
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    if do == "sleep":
        mark.write_text(str(os.getpid()))
        time.sleep(600)
    if do == "babble":
        print("half a li", end="", flush=True)
        sys.exit(3)
    about = {name: job[name] for name in ("algorithm", "number", "seed", "settings")}
    print(json.dumps({**about, "status": "finished", "value": os.getpid(), "seconds": 0.0}), flush=True)
"""
"""A worker without JAX."""

POOL = Processes(2, (sys.executable, "-c", FAKE))


def jobs(*does: str, mark: Path | None = None) -> list[RunSpec]:
    config = [{"do": do, "mark": str(mark)} for do in does]
    return [RunSpec("FedDR", i, 0, {}, one, "F", "last") for i, one in enumerate(config)]


def test_every_job_is_done_once_by_no_more_processes_than_wanted() -> None:
    found = list(POOL(iter(jobs(*["work"] * 9))))
    assert sorted(one.number for one in found) == list(range(9))
    assert {one.status for one in found} == {"finished"}
    assert len({one.value for one in found}) <= 2
    assert list(POOL(iter([]))) == []


def test_a_process_that_is_killed_loses_nothing_but_time(tmp_path: Path) -> None:
    found = list(POOL(iter(jobs("work", "die once", "work", "work", mark=tmp_path / "mark"))))
    assert sorted((one.number, one.status) for one in found) == [(i, "finished") for i in range(4)]


def test_a_job_that_kills_its_process_every_time_has_failed(tmp_path: Path) -> None:
    found = {one.number: one for one in POOL(iter(jobs("work", "die", "work", "work", mark=tmp_path / "mark")))}
    assert {number: one.status for number, one in found.items()} == {
        number: "failed" if number == 1 else "finished" for number in range(4)
    }
    assert found[1].reason == "The process of the run ended with signal 9, 2 times."


def test_half_an_answer_is_none() -> None:
    (found,) = POOL(iter(jobs("babble")))
    assert found.status == "failed"


def test_a_process_that_cannot_start_says_why() -> None:
    (found,) = Processes(1, (sys.executable, "-c", "raise SystemExit('no such thing')"))(iter(jobs("work")))
    assert found.status == "failed"
    assert found.brief == "The process of the run ended with code 1, 2 times. no such thing"
    (found,) = Processes(1, ("/no/such/program",))(iter(jobs("work")))
    assert found.reason.startswith("A process for the run could not be started: ")


def test_jobs_under_way_are_finished_when_no_more_come() -> None:
    stop = False

    def until() -> Iterator[RunSpec]:
        for one in jobs(*["work"] * 9):
            if stop:
                return
            yield one

    pool = POOL(until())
    numbers = [next(pool).number]
    stop = True
    numbers += [one.number for one in pool]
    # Three were taken: two at first, and one when the first had been done.
    assert sorted(numbers) == [0, 1, 2]


def test_closing_the_pool_ends_its_processes(tmp_path: Path) -> None:
    pool = POOL(iter(jobs("sleep", "work", mark=tmp_path / "mark")))
    assert isinstance(pool, Generator)
    assert next(pool).number == 1
    while not (tmp_path / "mark").exists() or not (tmp_path / "mark").read_text():
        time.sleep(0.01)
    began = time.perf_counter()
    pool.close()
    assert time.perf_counter() - began < 60
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "mark").read_text()), 0)


def test_a_worker_does_not_outlive_its_program() -> None:
    command = [sys.executable, "-P", "-m", "feddr.tune.worker"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as worker:
        assert worker.stdin is not None
        worker.stdin.close()
        assert worker.wait(timeout=60) == 0


RAY = """
import json, sys, warnings
warnings.simplefilter("ignore")
import ray
from feddr.tune import Ray, RunSpec
quiet = {"include_dashboard": False, "log_to_driver": False, "logging_level": "ERROR"}
ray.init(num_cpus=1, object_store_memory=80_000_000, **quiet)
try:
    jobs = [RunSpec.loads(line) for line in sys.stdin]
    for record in Ray("local")(iter(jobs)):
        print(record.dumps())
    assert ray.is_initialized()
finally:
    ray.shutdown()
"""


def test_ray_finds_what_this_process_finds() -> None:
    pytest.importorskip("ray")
    found = list(plan(raw(TOML), grid={"local.lr": [0.01, 1e38]}).jobs())
    lines = "".join(f"{one.dumps()}\n" for one in found)
    environment = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0"}
    with subprocess.Popen(
        [sys.executable, "-c", RAY],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
        start_new_session=True,
    ) as process:
        try:
            output, _ = process.communicate(lines, timeout=300)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # its own session: this program and the Ray that it started
            raise
    assert process.returncode == 0
    ours = {one.number: (one.status, one.value, one.round, one.local_steps) for one in serial(iter(found))}
    theirs = [json.loads(line) for line in output.splitlines()]
    assert {one["number"]: (one["status"], one["value"], one["round"], one["local_steps"]) for one in theirs} == ours
    assert [status for status, *_ in ours.values()] == ["finished", "diverged"]


def test_ray_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ModuleNotFoundError, match=r"--ray needs ray, .* pip install 'feddr\[ray\]'"):
        next(Ray("auto")(iter([])))


def test_a_machine_with_other_versions_is_refused() -> None:
    here = versions()
    assert checked(str.upper, "a job", here) == "A JOB"
    with pytest.raises(OtherVersions, match=r"has jax .* \(here 0.0.1\); install the same there"):
        checked(str.upper, "a job", here | {"jax": "0.0.1"})
