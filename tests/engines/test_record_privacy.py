"""Private steps in runs: what a site sends follows from noisy gradients, epsilon is accounted, the budget holds."""

from pathlib import Path
from typing import Any

import dp_accounting
import numpy as np
import optax
import pytest

import feddr
from feddr import tree
from feddr.engines.shared.compiled_clients import CompiledClients
from feddr.engines.shared.evaluation import Evaluator
from feddr.engines.shared.plain_clients import PlainClients
from feddr.engines.shared.privacy import released
from feddr.local import SolverContext, Subproblem
from feddr.privacy import RecordLevel, epsilon_of_uploads
from feddr.sampling import Uniform
from tests.engines.workers.in_process import in_process

__all__ = ["in_process"]

PRIVATE = RecordLevel(clip=0.5, noise=2.0, delta=1e-3, epochs=2)
SGD = feddr.local.SGD(lr=0.1, epochs=2, batch_size=5)
FEDDR = feddr.FedDR(eta=1.0, alpha=1.1, init="joining", mean="active", privacy=PRIVATE)
METHODS: list[Any] = [
    FEDDR,
    feddr.FedDR(eta=1.0, alpha=1.5, init="lazy", mean="all", start="own", privacy=PRIVATE),
    feddr.FedAvg(privacy=PRIVATE),
    feddr.FedDyn(eta=1.0, privacy=PRIVATE),
]


def federation(sizes: tuple[int, ...] = (20, 13, 5, 3)) -> feddr.Problem:
    rng = np.random.default_rng(0)
    parts = [{"x": (x := rng.normal(size=(n, 3))), "y": x @ np.array([1.0, -2.0, 0.5])} for n in sizes]
    return feddr.Problem.regression(feddr.models.linear(3), feddr.FederatedData.from_clients(parts), weights="uniform")


def run(algorithm: Any, engine: Any = feddr.simulate, problem: Any = None, **more: Any) -> feddr.Result:
    settings = {"local": SGD, "rounds": 3, "sampling": Uniform(2), "evaluate_every": 1, "progress": False} | more
    result: feddr.Result = engine(federation() if problem is None else problem, algorithm, **settings)
    return result


@pytest.mark.parametrize("rules", METHODS, ids=repr)
def test_uploads_follow_from_noisy_gradients_and_broadcasts(rules: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody who has the noisy gradients of each step, but no data, works out models, states and uploads."""
    problem, rng = federation(), np.random.default_rng(1)
    clients, noisy = PlainClients(problem, SGD, np.float64, PRIVATE), list[Any]()
    private = clients._private

    def heard(*arguments: Any) -> Any:
        noisy.append(private(*arguments))
        return noisy[-1]

    monkeypatch.setattr(clients, "_private", heard)
    x0 = tree.cast(problem.init, np.float64)
    site = watcher = rules.client(x0, x0)
    for k in range(3):
        xbar = tree.map(lambda a: a + rng.normal(size=np.shape(a)), x0)
        sub = rules.subproblem(site, xbar)
        noisy.clear()
        solution = clients(0, sub, np.random.default_rng(k), k, 0.5, np.random.default_rng(100 + k))
        assert len(noisy) == SGD.num_steps(20)
        seen = released(rules, SGD, sub, solution._replace(error=0.25, gradient=sub.start), rng)
        assert (seen.gradient, seen.met, seen.missed) == (None, None, None)
        assert np.isnan(seen.error)
        site, upload = rules.finish(site, xbar, sub, seen)

        known: Subproblem = rules.subproblem(watcher, xbar)
        state = SGD.init(known, SolverContext())
        for gradient in noisy:
            state = SGD.step(state, known.gradient(state.point, gradient))
        again = seen._replace(x=tree.cast(state.point, np.float64))
        watcher, copy = rules.finish(watcher, xbar, known, again)
        for a, b in zip(tree.leaves((site, upload)), tree.leaves((watcher, copy)), strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    ("method", "local"),
    [
        (FEDDR, SGD),
        (FEDDR, feddr.local.SGD(lr=0.1, epochs=2, batch_size=None)),
        (feddr.FedAvg(privacy=PRIVATE), feddr.local.Optax(optax.adam(0.1), epochs=2, batch_size=5)),
        (feddr.FedNova(privacy=PRIVATE), SGD),
    ],
    ids=["batches", "all-rows", "adam", "normalised"],
)
def test_engines_agree_on_private_steps(method: Any, local: Any) -> None:
    one, other = (run(method, engine, local=local, precision="float64") for engine in (feddr.simulate, feddr.reference))
    for a, b in zip(tree.leaves(one.params), tree.leaves(other.params), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9)
    assert one.history.column("epsilon") == other.history.column("epsilon")


@pytest.mark.usefixtures("in_process")
def test_bits_do_not_depend_on_threads_or_workers() -> None:
    one = run(FEDDR, sampling=None, threads=1)
    for other in (
        run(FEDDR, sampling=None, threads=3),
        run(FEDDR, feddr.simulate_cluster, sampling=None, workers=2),
    ):
        for a, b in zip(tree.leaves(one.params), tree.leaves(other.params), strict=True):
            np.testing.assert_array_equal(a, b)
        assert one.history.column("epsilon") == other.history.column("epsilon")


def test_a_private_problem_of_pytorch_takes_the_same_steps() -> None:
    torch = pytest.importorskip("torch", reason="pip install 'feddr[torch]'")
    from feddr.torch import TorchProblem

    data = federation().data
    theirs = TorchProblem(
        torch.nn.Linear(3, 1).to(torch.float64),
        data,
        loss=lambda out, batch: 0.5 * (out[:, 0] - batch["y"]) ** 2,
        correct=None,
    )
    start = {"weight": np.zeros((1, 3)), "bias": np.zeros(1)}
    found = run(FEDDR, feddr.reference, theirs, init=start, precision="float64").params
    ours = run(FEDDR, feddr.reference, precision="float64").params
    # Noise is drawn for one array after the other, whose order is that of the names in both.
    np.testing.assert_allclose(found["weight"].ravel(), ours["weight"], rtol=1e-9)
    np.testing.assert_allclose(found["bias"].ravel(), [ours["bias"]], rtol=1e-9)


@pytest.mark.parametrize("batch_size", [5, None])
def test_with_a_large_clip_and_no_noise_it_is_the_step_without_privacy(batch_size: int | None) -> None:
    """The proximal and linear terms of the subproblem are neither clipped nor divided by anything else."""
    problem, local = federation((20,)), feddr.local.SGD(lr=0.1, epochs=2, batch_size=batch_size)
    rng = np.random.default_rng(2)
    start, center, linear = (tree.map(lambda a: rng.normal(size=np.shape(a)), problem.init) for _ in range(3))
    sub, samples = Subproblem(start, center, 0.5, linear), Evaluator(problem, np.float64).samples
    found = []
    for privacy in (RecordLevel(clip=1e6, noise=1e-20, delta=1e-3, epochs=2), None):
        clients = CompiledClients(problem, samples, local, np.float64, False, privacy=privacy)
        found.append(clients(0, sub, np.random.default_rng(3), noise=np.random.default_rng(4)).x)
    for a, b in zip(*map(tree.leaves, found), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10)


def test_epsilon_is_what_dp_accounting_says_of_all_passes() -> None:
    """Each pass of the site that was asked most is a Gaussian mechanism, whose sums another record moves by 2 clip."""
    result = run(FEDDR, rounds=4)
    by_hand = dp_accounting.pld.PLDAccountant(dp_accounting.NeighboringRelation.REPLACE_ONE)
    most = max(result.state.updates.values())
    by_hand.compose(dp_accounting.GaussianDpEvent(2.0), 2 * most)
    epsilon = result.history.last.value("epsilon")
    assert epsilon == pytest.approx(by_hand.get_epsilon(1e-3), rel=1e-3)
    assert epsilon == epsilon_of_uploads(2.0, 1e-3, 2 * most)
    assert result.history.column("delta") == [1e-3] * 5


@pytest.mark.parametrize("engine", [feddr.simulate, feddr.reference])
def test_the_round_that_would_exceed_the_budget_is_not_begun(engine: Any) -> None:
    cost = epsilon_of_uploads(2.0, 1e-3, 2 * 2)
    for budget, rounds in ((cost, 2), (cost * (1 - 1e-9), 1)):
        private = RecordLevel(0.5, 2.0, 1e-3, budget=budget, epochs=2)
        result = run(feddr.FedAvg(privacy=private), engine, rounds=9, sampling=None)
        assert result.history.last.round == result.settings["rounds"] == rounds
        assert result.history.last.value("epsilon") <= budget
        assert f"after round {rounds}, a further round would make epsilon" in result.settings["stopped"]


def test_a_run_that_resumes_has_the_noise_and_the_account_of_one(tmp_path: Path) -> None:
    whole = run(FEDDR, rounds=4)
    run(FEDDR, rounds=2, checkpoint=feddr.Checkpoint(tmp_path, every=1))
    resumed = run(FEDDR, rounds=4, checkpoint=feddr.Checkpoint(tmp_path, every=1, resume=True))
    np.testing.assert_array_equal(resumed.params["weight"], whole.params["weight"])
    assert resumed.history.column("epsilon") == whole.history.column("epsilon")


@pytest.mark.parametrize(
    ("method", "more", "message"),
    [
        (feddr.Scaffold(privacy=PRIVATE), {}, "Scaffold sends gradients, for which RecordLevel does not account"),
        (FEDDR, {"local": feddr.local.Accelerated()}, "makes the steps of SGD and Optax private, got Accelerated"),
        (FEDDR, {"local": feddr.local.SGD(lr=0.1)}, "epochs=2, and SGD makes 1; give both the same epochs"),
    ],
)
def test_what_is_not_accounted_is_refused(method: Any, more: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        run(method, **more)


def test_weights_that_are_scaled_by_other_records_are_refused() -> None:
    rows = {"x": np.eye(3), "y": np.array([0, 1, 1])}
    data = feddr.FederatedData.from_clients([rows] * 2)
    balanced = feddr.Problem.classification(feddr.models.linear(3), data, class_weight="balanced")
    with pytest.raises(ValueError, match="one record moves the gradients of all others"):
        run(FEDDR, problem=balanced)


def test_asynchronous_runs_are_not_accounted() -> None:
    with pytest.raises(ValueError, match="Privacy is accounted in rounds"):
        feddr.simulate_async(federation(), feddr.AsyncFedDR(eta=1.0, alpha=1.0, privacy=PRIVATE), local=SGD, updates=1)
