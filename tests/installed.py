"""Tries feddr as users install it: ``make test-install``, with the newest and with the oldest versions that it allows.

A wheel is built and installed into an empty environment outside of the checkout; then every command explains itself,
and there are a run, a page and a figure. The small extras are tried in their oldest versions. Nothing here is imported
by other tests.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
OLDEST = ROOT / "constraints-oldest.txt"
OLDEST_EXTRAS = ROOT / "constraints-oldest-extras.txt"
PIP = ("-m", "pip", "--disable-pip-version-check", "--quiet")
SMALL = ("rounds=2", "evaluate_every=1", "data.num_clients=4", "local.epochs=1")

COMMANDS = """
import typer
from typer.testing import CliRunner
from feddr.commands.main import app
def names(command, path):
    yield path
    for name, one in getattr(command, "commands", {}).items():
        yield from names(one, [*path, name])
for path in names(typer.main.get_command(app), []):
    done = CliRunner().invoke(app, [*path, "--help"])
    assert done.exit_code == 0 and "Usage: " in done.output, (path, done.output)
    print(*path)
"""
PYTHON = """
import feddr
data = feddr.datasets.synthetic(1, 1, num_clients=4, seed=0)
problem = feddr.Problem.classification(feddr.models.softmax(60, 10), data, g=feddr.prox.L1(1e-3))
result = feddr.simulate(problem, feddr.FedDR(), local=feddr.local.SGD(lr=0.01, batch_size=10), rounds=3)
assert result.history.last.F < result.history.rows[0].F, result.history
assert result.history.to_pandas()["round"].tolist() == [0, 3]
result.save("runs/mine")
"""

TINY = """
name = "tiny"
rounds = 2
evaluate_every = 1
data = {name = "synthetic", r = 1.0, s = 1.0, num_clients = 3}
model = {name = "softmax", num_features = 60, num_classes = 10}
local = {name = "SGD", lr = 0.01}
algorithm = {name = "FedDR"}
"""
EXTRAS = """
import numpy as np
from feddr.datasets import bundled
from feddr.estimators import FederatedClassifier
assert bundled("iris", num_clients=3).num_clients == 3
X, y = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 1.0], [3.0, 0.0]]), ["well", "well", "ill", "ill"]
import pandas, feddr
pandas.DataFrame({"a": [0.5, 1.0], 1: [2, 3], "y": [0, 1]}).rename(columns=str).to_parquet("ann.parquet")
assert feddr.datasets.client_files("*.parquet").client(0)["x"].tolist() == [[0.5, 2.0], [1.0, 3.0]]
model = FederatedClassifier("l1", 0.1).fit(X, y, clients=["north", "south"] * 2)
assert model.predict([[3.0, 1.0]]).tolist() == ["ill"] and model.coef_[0, 1] == 0
from mlflow import MlflowClient
client = MlflowClient("mlruns")
(run,) = client.search_runs([client.get_experiment_by_name("tiny").experiment_id], "", max_results=1)
assert run.info.status == "FINISHED" and len(client.get_metric_history(run.info.run_id, "F")) == 3, run
"""


def main() -> None:
    """Build the wheel, and try it with both sets of versions."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=("newest", "oldest"))
    only = parser.parse_args().only
    with tempfile.TemporaryDirectory(prefix="feddr-install-") as folder:
        place = Path(folder)
        call([sys.executable, *PIP, "wheel", "--no-deps", "--wheel-dir", str(place), str(ROOT)], place)
        (wheel,) = place.glob("feddr-*.whl")
        for which in (only,) if only else ("newest", "oldest"):
            before = seconds()
            attempt(place / which, wheel, ("--constraint", str(OLDEST)) if which == "oldest" else ())
            if which == "oldest":
                attempt_extras(place / which, wheel)
            print(f"The {which} versions work: {seconds() - before:.0f} s of CPU time.", flush=True)


def attempt(place: Path, wheel: Path, versions: tuple[str, ...]) -> None:
    """Install the wheel into a new environment, and use it from an empty folder."""
    call([sys.executable, "-m", "venv", str(place / "env")], ROOT)
    python, feddr = str(place / "env/bin/python"), str(place / "env/bin/feddr")
    work = place / "work"
    work.mkdir()
    # Modules are compiled when they are first imported; all of them at once takes longer than everything else here.
    call([python, *PIP, "install", "--no-compile", *versions, str(wheel)], work)
    call([python, *PIP, "check"], work)
    assert "Usage: feddr" in call([feddr, "--help"], work)
    assert "deploy server" in call([python, "-c", COMMANDS], work).splitlines()
    assert "See feddr compare --help." in call([feddr, "compare", "--nothing"], work, code=2)
    call([feddr, "example", "first"], work)
    call([feddr, "compare", "first.toml", *(word for one in SMALL for word in ("--set", one))], work)
    call([feddr, "report", "runs/first"], work)
    call([feddr, "reproduce", "composite", "--quick", "--workers", "0"], work)
    call([python, "-c", PYTHON], work)
    for name in (
        "first/comparison.png",
        "first/report.html",
        "reproduce-quick/composite/round-xbar.png",
        "mine/history.csv",
    ):
        assert (work / "runs" / name).stat().st_size > 100, name


def attempt_extras(place: Path, wheel: Path) -> None:
    """Add the small extras to the environment with the oldest versions, in theirs, and use them.

    The large ones, Flower, Ray and PyTorch, and jax2onnx, are tried in their oldest versions by the tests in ``.venv``,
    as ``constraints.txt`` has no others.
    """
    python, feddr, work = str(place / "env/bin/python"), str(place / "env/bin/feddr"), place / "work"
    versions = ("--constraint", str(OLDEST), "--constraint", str(OLDEST_EXTRAS))
    call([python, *PIP, "install", "--no-compile", *versions, f"{wheel}[mlflow,parquet,sklearn,tensorboard]"], work)
    call([python, *PIP, "check"], work)
    (work / "tiny.toml").write_text(TINY)
    call([feddr, "run", "tiny.toml", "--tensorboard", "logs", "--mlflow", "mlruns"], work)
    assert list((work / "logs").rglob("events.out.*")), "no file for TensorBoard"
    call([python, "-c", EXTRAS], work)


def call(words: list[str], folder: Path, code: int = 0) -> str:
    """Return what a program prints, in an environment that knows nothing of the checkout; end where it fails."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "VIRTUAL_ENV"))}
    clean |= {"COLUMNS": "200", "JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}
    done = subprocess.run(
        words, cwd=folder, env=clean, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )
    if done.returncode != code or "Traceback" in done.stdout:
        sys.exit(f"{done.stdout}\n{' '.join(words)} ended with code {done.returncode}, not {code}.")
    return done.stdout


def seconds() -> float:
    """Return the CPU time of all programs that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
