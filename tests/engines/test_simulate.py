"""The simulator's promises to its users."""

import gc
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from safetensors.numpy import load_file

import feddr
from feddr import tree
from feddr.engines.shared.randomness import client_rng, sampling_rng
from feddr.engines.shared.state import Progress
from feddr.storage import limits
from tests.conftest import make_regression

SGD = feddr.local.SGD(lr=0.05, epochs=1, batch_size=4)


@pytest.fixture(scope="module")
def problem(class_data: feddr.FederatedData) -> feddr.Problem:
    return feddr.Problem.classification(feddr.models.mlp([5, 4, 3]), class_data, g=feddr.prox.L1(1e-3))


def test_the_two_examples_of_the_documentation() -> None:
    data = feddr.datasets.synthetic(1, 1, num_clients=4, seed=0)
    network = feddr.models.mlp([60, 8, 10])
    problem = feddr.Problem.classification(network, data, g=feddr.prox.L1(1e-4), weights="samples")
    result = feddr.simulate(
        problem,
        feddr.FedDR(eta=10.0, alpha=1.5),
        local=feddr.local.SGD(lr=0.01, epochs=2, batch_size=10),
        sampling=feddr.sampling.Uniform(2),
        rounds=20,
        seed=0,
    )
    table = result.history.to_pandas()
    assert table["round"].tolist() == [0, 10, 20]
    assert table["train_loss"].iloc[-1] < table["train_loss"].iloc[0]

    rng = np.random.default_rng(0)
    x1, x2 = rng.normal(size=(20, 5)), rng.normal(size=(9, 5))
    own = feddr.Problem(
        loss=lambda params, batch: 0.5 * (batch["x"] @ params - batch["y"]) ** 2,
        data=feddr.FederatedData.from_clients([{"x": x1, "y": x1.sum(1)}, {"x": x2, "y": x2.sum(1)}]),
        init=np.zeros(5),
        g=feddr.prox.L1(0.1),
        weights="uniform",
    )
    result = feddr.simulate(
        own,
        feddr.FedDR(eta=0.3, alpha=1.0),
        local=feddr.local.Accelerated(tol=1e-10),
        sampling=feddr.sampling.Uniform(2),
        rounds=500,
        seed=0,
        precision="float64",
    )
    assert result.history.last.gradient_mapping < 1e-8


def test_metrics_are_those_of_xbar(problem: feddr.Problem) -> None:
    result = feddr.simulate(problem, feddr.FedDR(eta=1.0), local=SGD, rounds=7, precision="float64", personal=True)
    row, x, test = result.history.last, result.params, problem.data.test
    assert problem.correct is not None
    assert test is not None
    assert row.round == 7
    assert pytest.approx(problem.F(x), rel=1e-12) == row.F
    assert row.f == pytest.approx(problem.f(x), rel=1e-12)
    assert row.g == pytest.approx(1e-3 * sum(float(np.abs(leaf).sum()) for leaf in tree.leaves(x)), rel=1e-12)
    assert row.train_accuracy == pytest.approx(float(np.mean(problem.correct(x, problem.data.train.samples))))
    assert row.test_accuracy == pytest.approx(float(np.mean(problem.correct(x, test.samples))))
    assert row.gradient_mapping == pytest.approx(tree.norm(problem.gradient_mapping(x)), rel=1e-10)
    zeros = sum(int((leaf == 0).sum()) for leaf in tree.leaves(x))
    assert row.sparsity == zeros / tree.size(x)


def test_personal_metrics_are_those_of_each_client_on_its_own_samples(problem: feddr.Problem) -> None:
    result = feddr.simulate(
        problem,
        feddr.FedDR(eta=1.0),
        local=SGD,
        sampling=feddr.sampling.Uniform(1),
        rounds=2,
        precision="float64",
        personal=True,
    )
    assert problem.correct is not None
    assert problem.data.test is not None
    right: dict[str, list[Any]] = {"train": [], "test": []}
    for i, c in result.state.clients.items():
        right["train"].extend(problem.correct(c.x, problem.data.train.client(i)))
        right["test"].extend(problem.correct(c.x, problem.data.test.client(i)))
    assert result.history.last.personal_train_accuracy == pytest.approx(float(np.mean(right["train"])))
    assert result.history.last.personal_test_accuracy == pytest.approx(float(np.mean(right["test"])))


def test_bytes_are_those_of_the_messages(problem: feddr.Problem) -> None:
    size = 4 * tree.size(problem.init)

    def sent(algorithm: Any, scheme: Any, plain: bool) -> tuple[int, int]:
        p = feddr.Problem(problem.loss, problem.data, problem.init) if plain else problem
        row = feddr.simulate(p, algorithm, local=SGD, sampling=scheme, rounds=3).history.last
        return row.bytes_up, row.bytes_down

    two = feddr.sampling.Uniform(2)
    assert sent(feddr.FedDR(eta=1.0), two, False) == (6 * size, 6 * size)
    assert sent(feddr.FedAvg(), two, True) == (6 * size, 6 * size)
    assert sent(feddr.Scaffold(), two, True) == (12 * size, 12 * size)
    # The start-up round reaches everybody once more.
    assert sent(feddr.FedDR(eta=1.0, init="full"), two, False) == ((4 + 6) * size, (4 + 6) * size)


def test_local_steps_count_batches(problem: feddr.Problem) -> None:
    row = feddr.simulate(problem, feddr.FedDR(eta=1.0), local=SGD, rounds=3).history.last
    assert row.local_steps == 3 * sum(-(-size // 4) for size in (13, 30, 8, 21))
    assert np.isnan(row.prox_error)


def test_rounds_without_clients_change_nothing(problem: feddr.Problem) -> None:
    nobody = feddr.sampling.Independent(1e-9)
    result = feddr.simulate(problem, feddr.FedDR(eta=1.0), local=SGD, sampling=nobody, rounds=5)
    assert result.state.clients == {}
    assert result.history.rows[0].F == result.history.last.F


def test_state_is_kept_for_clients_that_took_part_only() -> None:
    data = make_regression(tuple([3] * 50), 2, seed=0)
    problem = feddr.Problem.regression(feddr.models.linear(2), data)
    scheme = feddr.sampling.Uniform(1)
    result = feddr.simulate(problem, feddr.FedDR(eta=1.0), local=SGD, sampling=scheme, rounds=4)
    assert 1 <= len(result.state.clients) <= 4
    assert sum(result.state.updates.values()) == 4


def test_a_callback_can_end_the_run(problem: feddr.Problem) -> None:
    def stop_after_three(progress: Progress) -> bool:
        return progress.round == 3

    result = feddr.simulate(problem, feddr.FedDR(eta=1.0), local=SGD, rounds=50, callback=stop_after_three)
    assert [row.round for row in result.history.rows] == [0, 3]
    assert result.settings["rounds"] == 3


def test_divergence_names_client_round_and_cause(problem: feddr.Problem) -> None:
    wild = feddr.local.SGD(lr=1e30, epochs=5, batch_size=4)
    with pytest.raises(feddr.DivergedError, match=r"Client \d in round 1|Client 0 sent .* round 1\. .*SGD\(lr=1e\+30"):
        feddr.simulate(problem, feddr.FedDR(eta=1.0), local=wild, rounds=2)


def test_a_saved_run_can_be_read_back(problem: feddr.Problem, tmp_path: Path) -> None:
    result = feddr.simulate(problem, feddr.FedDR(eta=1.0), local=SGD, rounds=3)
    folder = result.save(tmp_path / "runs" / "first")
    model = load_file(folder / "model.safetensors")
    assert set(model) == {"layer0.weight", "layer0.bias", "layer1.weight", "layer1.bias"}
    assert np.array_equal(model["layer0.weight"], result.params["layer0"]["weight"])
    assert feddr.History.from_csv(folder / "history.csv").last.F == result.history.last.F
    settings = json.loads((folder / "settings.json").read_text())
    assert settings["algorithm"] == (
        "FedDR(eta=1.0, alpha=1.1, init='joining', start='xbar', mean='active', alpha_decay=20.0)"
    )
    assert settings["step_sizes"] == "alpha = 1.1, falling to 1 with alpha_decay = 20."
    assert (folder / "curves.png").stat().st_size > 10_000


@pytest.mark.parametrize("engine", [feddr.simulate, feddr.simulate_async, feddr.reference])
def test_step_sizes_that_were_chosen_are_printed_once_unless_the_caller_wants_silence(
    problem: feddr.Problem, engine: Callable[..., feddr.Result], capsys: pytest.CaptureFixture[str]
) -> None:
    asynchronous = engine is feddr.simulate_async
    algorithm, length = (feddr.AsyncFedDR(), "updates") if asynchronous else (feddr.FedDR(), "rounds")
    loud = engine(problem, algorithm, local=SGD, **{length: 1})
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", f"{type(algorithm).__name__}: {loud.settings['step_sizes']}\n")
    quiet = engine(problem, algorithm, local=SGD, progress=False, **{length: 1})
    assert capsys.readouterr() == ("", "")
    assert quiet.settings == loud.settings
    with pytest.raises(ValueError, match=r'progress must be True, False, "words" or None, got 3\.'):
        engine(problem, algorithm, local=SGD, progress=3, **{length: 1})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rounds": -1}, "rounds"),
        ({"evaluate_every": 0}, "evaluate_every"),
        ({"seed": -1}, "seed"),
        ({"precision": "float16"}, "precision"),
        ({"sampling": feddr.sampling.Uniform(9)}, "9"),
    ],
)
def test_bad_settings_are_refused(problem: feddr.Problem, change: dict[str, Any], message: str) -> None:
    arguments: dict[str, Any] = {"local": SGD, "rounds": 1} | change
    with pytest.raises(ValueError, match=message):
        feddr.simulate(problem, feddr.FedDR(eta=1.0), **arguments)


def test_the_start_is_left_untouched(problem: feddr.Problem) -> None:
    before = tree.map(np.copy, problem.init)
    feddr.simulate(problem, feddr.FedDR(eta=1.0), local=SGD, rounds=2, precision="float64")
    assert all(np.array_equal(a, b) for a, b in zip(tree.leaves(before), tree.leaves(problem.init), strict=True))


def test_everything_public_is_there() -> None:
    for name in feddr.__all__:
        assert getattr(feddr, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'FedSomething'"):
        feddr.FedSomething  # noqa: B018
    assert set(feddr.__all__) <= set(dir(feddr))


@pytest.mark.parametrize(
    "kind", ["rounds", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("certified", "checkpoints", "clock"))]
)
def test_samples_leave_the_device_with_the_run(problem: feddr.Problem, kind: str, tmp_path: Path) -> None:
    def run() -> None:
        if kind == "clock":
            feddr.simulate_async(problem, feddr.AsyncFedDR(eta=1.0, alpha=1.0), local=SGD, updates=5)
            return
        folder = tmp_path if kind == "checkpoints" else None
        rules = feddr.FedDR(eta=1.0, alpha=1.0)
        feddr.simulate(problem, rules, local=SGD, rounds=2, certify=kind == "certified", checkpoint=folder)

    def on_the_device() -> int:
        return len(jax.live_arrays())  # type: ignore[no-untyped-call]

    gc.collect()
    before = on_the_device()
    gc.disable()
    try:
        run()
        assert on_the_device() == before
    finally:
        gc.enable()


def test_importing_feddr_does_not_import_jax() -> None:
    code = "import feddr, sys; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_compilation_cache_can_be_moved_and_switched_off(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from feddr.xla import compilation_cache

    monkeypatch.setenv("FEDDR_COMPILATION_CACHE", "off")
    assert compilation_cache.folder() is None
    monkeypatch.setenv("FEDDR_COMPILATION_CACHE", str(tmp_path))
    assert compilation_cache.folder() == tmp_path
    monkeypatch.delenv("FEDDR_COMPILATION_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert compilation_cache.folder() == tmp_path / "feddr" / "compiled"


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system does not bind threads to cores")
def test_a_core_that_the_process_may_not_use_is_not_counted() -> None:
    allowed = os.sched_getaffinity(0)
    assert limits.cores() == len(allowed)
    try:
        os.sched_setaffinity(0, {min(allowed)})
        assert limits.cores() == 1
    finally:
        os.sched_setaffinity(0, allowed)


def test_a_cache_folder_that_cannot_be_made_is_done_without(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    code = (
        "from feddr.xla import compilation_cache; import jax; compilation_cache.enable(); "
        "print(jax.config.jax_compilation_cache_dir)"
    )
    variables = {**os.environ, "FEDDR_COMPILATION_CACHE": str(tmp_path / "file" / "below")}
    done = subprocess.run([sys.executable, "-c", code], env=variables, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "None"


@pytest.mark.parametrize("key", [(0, 0, 0), (7, 29, 3), (2**32 - 1, 10**6, 0), (2**32, 1, 1), (2**70, 0, 5)])
def test_the_randomness_of_a_client_is_numpys_for_its_key(key: tuple[int, int, int]) -> None:
    """Results depend on it, so a faster way to make a generator must make the same one."""
    ours, numpys = client_rng(*key), np.random.default_rng([0, *key])
    assert ours.integers(2**63, size=8).tolist() == numpys.integers(2**63, size=8).tolist()
    ours, numpys = sampling_rng(*key[:2]), np.random.default_rng([1, *key[:2]])
    assert ours.random(4).tolist() == numpys.random(4).tolist()
