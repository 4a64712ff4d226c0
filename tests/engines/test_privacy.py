"""Private runs: what a site sends follows from what it has released, epsilon is accounted, the budget holds."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import feddr
from feddr import tree
from feddr.algorithms import Algorithm
from feddr.engines.shared.privacy import released
from feddr.local import Solution
from feddr.privacy import SiteLevel, epsilon_of_models, epsilon_of_uploads
from feddr.sampling import Independent, Uniform

PRIVATE = SiteLevel(clip=0.5, noise=2.0, delta=1e-3)
SGD = feddr.local.SGD(lr=0.1, epochs=2, batch_size=5)
METHODS: list[Any] = [
    feddr.FedDR(eta=1.0, alpha=1.1, init="joining", mean="active", privacy=PRIVATE),
    feddr.FedDR(eta=1.0, alpha=1.0, init="lazy", mean="all", start="own", privacy=PRIVATE),
    feddr.FedDR(eta=1.0, alpha=1.0, init="full", mean="all", upload=feddr.compress.Quantised(4), privacy=PRIVATE),
    feddr.FedAvg(privacy=PRIVATE),
    feddr.FedAvgM(momentum=0.5, privacy=PRIVATE),
    feddr.FedProx(mu=0.1, privacy=PRIVATE),
    feddr.FedDyn(eta=1.0, privacy=PRIVATE),
]


def federation(clients: int = 6) -> feddr.Problem:
    rng = np.random.default_rng(0)
    parts = [{"x": (x := rng.normal(size=(20, 3))), "y": x @ np.array([1.0, -2.0, 0.5])} for _ in range(clients)]
    return feddr.Problem.regression(feddr.models.linear(3), feddr.FederatedData.from_clients(parts), weights="uniform")


def run(algorithm: Any, engine: Any = feddr.simulate, **more: Any) -> feddr.Result:
    settings = {"local": SGD, "rounds": 4, "sampling": Uniform(3), "evaluate_every": 1, "progress": False} | more
    result: feddr.Result = engine(federation(), algorithm, **settings)
    return result


@pytest.mark.parametrize("rules", METHODS, ids=repr)
def test_uploads_follow_from_released_models_and_broadcasts(rules: Any) -> None:
    """Somebody who has the releases, the broadcasts and the rules works out every state and every upload of a site.

    So each update costs one release, whatever a client remembers: the rest is processing of what is known.
    """
    rng, x0 = np.random.default_rng(1), {"weight": np.zeros(3), "bias": np.zeros(())}
    site = watcher = rules.client(x0, x0)
    for k in range(5):
        xbar = tree.map(lambda a: a + rng.normal(size=np.shape(a)), x0)
        sub = rules.subproblem(site, xbar)
        # What a solver knows of the data: its model, how well it did, and gradients.
        private = Solution(tree.map(lambda a: a + 5.0 * rng.normal(), sub.start), 17, 0.25, sub.start, draw=k)
        seen = released(rules, SGD, sub, private, np.random.default_rng(k))
        site, upload = rules.finish(site, xbar, sub, seen)
        known = Solution(seen.x, 0, float("nan"), draw=k)
        watcher, copy = rules.finish(watcher, xbar, rules.subproblem(watcher, xbar), known)
        for a, b in zip(tree.leaves((site, upload)), tree.leaves((watcher, copy)), strict=True):
            np.testing.assert_array_equal(a, b)
        assert tree.norm(tree.sub(seen.x, private.x)) > 1.0  # and what was released is not the model


def test_the_memory_of_feddr_is_recomputed_from_releases() -> None:
    """y_i and xhat_i after three rounds, by hand from the released x_i and the broadcasts."""
    rules = feddr.FedDR(eta=1.0, alpha=1.5, init="lazy", mean="all", privacy=PRIVATE)
    rng, c = np.random.default_rng(0), rules.client(np.zeros(2), np.zeros(2))
    y, last = np.zeros(2), np.zeros(2)
    for _ in range(3):
        xbar = rng.normal(size=2)
        sub = rules.subproblem(c, xbar)
        seen = released(rules, SGD, sub, Solution(rng.normal(size=2), 1, 0.0), rng)
        c, _ = rules.finish(c, xbar, sub, seen)
        y, last = y + 1.5 * (xbar - last), seen.x
        np.testing.assert_allclose(c.y, y, atol=1e-12)
        np.testing.assert_allclose(c.xhat, 2 * last - y, atol=1e-12)


@pytest.mark.parametrize("method", [METHODS[0], METHODS[3]], ids=repr)
def test_engines_agree_on_private_runs(method: Algorithm) -> None:
    one, other = (run(method, engine, precision="float64") for engine in (feddr.simulate, feddr.reference))
    np.testing.assert_allclose(one.params["weight"], other.params["weight"], rtol=1e-9)
    assert one.history.column("epsilon") == other.history.column("epsilon")


def test_epsilon_is_that_of_the_site_that_has_sent_most() -> None:
    result = run(feddr.FedDR(eta=1.0, alpha=1.0, privacy=PRIVATE), rounds=5)
    asked = np.zeros(6, int)
    assert result.history.column("delta") == [1e-3] * 6
    for k, epsilon in enumerate(result.history.column("epsilon")):
        if k > 0:
            from feddr.engines.shared.randomness import sampling_rng

            asked[Uniform(3).draw(6, sampling_rng(0, k))] += 1
        assert epsilon == epsilon_of_uploads(2.0, 1e-3, int(asked.max()))
    assert result.state.updates == {i: count for i, count in enumerate(asked) if count}


def test_where_models_alone_are_seen_sampling_and_the_noise_of_others_help() -> None:
    seen = SiteLevel(0.5, 2.0, 1e-3, sees="models")
    result = run(feddr.FedAvg(privacy=seen))
    expected = [epsilon_of_models(2.0, 1e-3, k, Uniform(3), [1 / 6] * 6) for k in range(5)]
    assert result.history.column("epsilon") == expected
    uploads = run(feddr.FedAvg(privacy=PRIVATE))
    np.testing.assert_array_equal(result.params["weight"], uploads.params["weight"])  # the runs are the same
    assert result.history.last.value("epsilon") < uploads.history.last.value("epsilon")


@pytest.mark.parametrize("engine", [feddr.simulate, feddr.reference])
def test_the_round_that_would_exceed_the_budget_is_not_begun(engine: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """Everybody takes part; the budget is what three rounds cost, or a hair less."""
    cost = epsilon_of_uploads(2.0, 1e-3, 3)
    for budget, rounds in ((cost, 3), (cost * (1 - 1e-9), 2), (1e-6, 0)):
        private = SiteLevel(0.5, 2.0, 1e-3, budget=budget)
        method = feddr.FedDR(eta=1.0, alpha=1.0, privacy=private)
        result = run(method, engine, rounds=9, sampling=None, evaluate_every=5, progress="words")
        assert result.history.last.round == result.settings["rounds"] == rounds
        assert result.history.last.value("epsilon") <= budget
        assert max(result.state.updates.values(), default=0) == rounds
        assert f"after round {rounds}, a further round would make epsilon" in result.settings["stopped"]
        assert f"FedDR: stopped after round {rounds}, a further round" in capsys.readouterr().err


def test_a_start_up_round_counts_and_is_not_begun_beyond_the_budget() -> None:
    for budget, updates in ((epsilon_of_uploads(2.0, 1e-3, 1), 1), (1e-6, 0)):
        private = SiteLevel(0.5, 2.0, 1e-3, budget=budget)
        method = feddr.FedDR(eta=1.0, alpha=1.0, init="full", mean="all", privacy=private)
        for engine in (feddr.simulate, feddr.reference):
            result = run(method, engine)
            assert (result.settings["rounds"], sum(result.state.updates.values())) == (0, 6 * updates)


def test_a_run_that_resumes_has_not_forgotten_what_it_has_spent(tmp_path: Path) -> None:
    budget = epsilon_of_uploads(2.0, 1e-3, 3)
    method = feddr.FedAvg(privacy=SiteLevel(0.5, 2.0, 1e-3, budget=budget))
    whole = run(method, rounds=9, sampling=None)
    run(method, rounds=2, sampling=None, checkpoint=feddr.Checkpoint(tmp_path, every=1))
    for _ in range(2):  # and once more after it has ended
        resumed = run(method, rounds=9, sampling=None, checkpoint=feddr.Checkpoint(tmp_path, every=1, resume=True))
        assert resumed.settings["rounds"] == 3
        assert resumed.history.column("epsilon") == whole.history.column("epsilon")
        np.testing.assert_array_equal(resumed.params["weight"], whole.params["weight"])


def test_a_site_whose_solver_diverges_sends_noise_and_stops_nobody() -> None:
    result = run(feddr.FedAvg(privacy=PRIVATE), local=feddr.local.SGD(lr=1e30, epochs=9))
    assert result.settings["rounds"] == 4
    assert np.isfinite(result.params["weight"]).all()


def test_a_method_that_needs_the_length_of_the_local_work_has_it() -> None:
    """With clients of one size FedNova is FedAvg, also where both see released models."""
    one, other = (run(method(privacy=PRIVATE), precision="float64") for method in (feddr.FedAvg, feddr.FedNova))
    np.testing.assert_allclose(one.params["weight"], other.params["weight"], rtol=1e-9)


def test_columns_survive_a_file(tmp_path: Path) -> None:
    history = run(METHODS[0]).history
    history.to_csv(tmp_path / "history.csv")
    assert feddr.History.from_csv(tmp_path / "history.csv").column("epsilon") == history.column("epsilon")
    from feddr.history import read_rows

    assert [row["epsilon"] for row in read_rows(tmp_path / "history.csv")] == history.column("epsilon")


@pytest.mark.parametrize(
    ("method", "more", "message"),
    [
        (feddr.Scaffold(privacy=PRIVATE), {}, "Scaffold sends gradients, for which SiteLevel does not account"),
        (feddr.FedDR(privacy=PRIVATE), {"local": feddr.local.Accelerated()}, "looks at the curvature of the data"),
        (feddr.FedAvg(privacy=1.0), {}, "privacy must be a feddr.privacy.SiteLevel or RecordLevel, got 1.0"),  # type: ignore[arg-type]
        (
            feddr.FedDR(eta=1.0, alpha=1.0, privacy=SiteLevel(1.0, 1.0, 1e-3, sees="models")),
            {},
            "needs clients that remember nothing, got FedDR",
        ),
        (
            feddr.FedAvg(upload=feddr.compress.TopK(0.5), privacy=SiteLevel(1.0, 1.0, 1e-3, sees="models")),
            {},
            "needs clients that remember nothing, got FedAvg",
        ),
        (
            feddr.FedAvg(privacy=SiteLevel(1.0, 1.0, 1e-3, sees="models")),
            {"sampling": Independent([0.5] * 6)},
            "accounted for Full and Uniform",
        ),
        (
            feddr.FedAvg(privacy=SiteLevel(1.0, 1.0, 1e-3, sees="models")),
            {"clock": feddr.Clock(feddr.delays.Fixed(1.0))},
            "counts on the noise of every client",
        ),
    ],
)
def test_what_is_not_understood_is_refused(method: Any, more: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        run(method, **more)


def test_asynchronous_runs_are_not_accounted() -> None:
    with pytest.raises(ValueError, match="Privacy is accounted in rounds"):
        feddr.simulate_async(federation(), feddr.AsyncFedDR(eta=1.0, alpha=1.0, privacy=PRIVATE), local=SGD, updates=1)
