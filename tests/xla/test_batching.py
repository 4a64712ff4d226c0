import subprocess
import sys
from collections import Counter
from typing import Any

import numpy as np
import optax
import pytest
from hypothesis import given
from hypothesis import strategies as st

import feddr
from feddr import tree
from feddr.data import Samples
from feddr.engines.shared.compiled_clients import CompiledClients, SubproblemTask
from feddr.engines.shared.evaluation import Evaluator
from feddr.engines.shared.plain_clients import PlainClients
from feddr.local import Subproblem
from feddr.storage import limits
from feddr.xla import batching, kernel
from feddr.xla.batching import BatchingPolicy, Workload
from tests.conftest import make_classes

SIZES = (1, 3, 70, 12, 12, 5, 31, 200, 9)
ALONE = BatchingPolicy(width=1, enough=-1.0, side_by_side=False)
PLANS = {
    "alone": ALONE,
    "shared": BatchingPolicy(width=4, enough=1e9, side_by_side=False),
    "side by side": BatchingPolicy(width=4, enough=1e9, side_by_side=True),
    "cpu": batching.CPU,
    "accelerator": batching.ACCELERATOR,
}


@given(
    st.lists(st.tuples(st.sampled_from([(1,), (2,)]), st.floats(0, 10)), max_size=30),
    st.integers(1, 5),
    st.floats(0, 20),
)
def test_calls_divide_the_clients(loads: list[tuple[tuple[int], float]], width: int, enough: float) -> None:
    given = [Workload(i, shape, work) for i, (shape, work) in enumerate(loads)]
    calls = BatchingPolicy(width, enough, side_by_side=False).calls(given)
    assert [i for call in calls for i in call] == list(range(len(given)))
    for call in calls:
        assert len(call) <= width
        assert len({given[i].shape for i in call}) == 1
        assert len(call) == 1 or sum(given[i].work for i in call) <= enough * (1 + 1e-12)


def test_what_is_worth_a_thread() -> None:
    """On a CPU what has a call of its own; on an accelerator every call, since there is nothing else."""
    little, much = Workload(0, (64,), batching.CPU.enough), Workload(1, (64,), batching.CPU.enough * 1.01)
    assert not batching.CPU.worth_a_thread(little)
    assert batching.CPU.worth_a_thread(much)
    assert ALONE.worth_a_thread(little)
    assert batching.ACCELERATOR.worth_a_thread(little)


def clients(how: BatchingPolicy, local: feddr.local.LocalSolver, needs_gradient: bool = False) -> CompiledClients:
    problem = feddr.Problem.classification(feddr.models.mlp([4, 5, 3]), make_classes(SIZES, 4, 3, seed=1))
    samples = Evaluator(problem, np.float64).samples
    return CompiledClients(problem, samples, local, np.float64, needs_gradient, how)


def solve(compiled: CompiledClients, wanted: list[int]) -> dict[int, Any]:
    x = tree.cast(compiled.problem.init, np.float64)
    found: dict[int, Any] = {}
    for call in compiled.calls(wanted):
        tasks = [
            SubproblemTask(i, Subproblem(x, x, 2.0 + i, x), compiled.draw(i, np.random.default_rng(i)), i, 0.5)
            for i in call
        ]
        found |= dict(zip(call, compiled.solve(tasks), strict=True))
    return found


SOLVERS: dict[str, feddr.local.LocalSolver] = {
    "sgd": feddr.local.SGD(lr=0.1, epochs=3, batch_size=7),
    "all rows": feddr.local.SGD(lr=0.1, epochs=5, batch_size=None, momentum=0.5),
    "adam": feddr.local.Optax(optax.adam(0.01), epochs=2, batch_size=4),
}


@pytest.mark.parametrize(
    "solver", ["sgd", *(pytest.param(name, marks=pytest.mark.slow) for name in ("all rows", "adam"))]
)
def test_all_plans_agree(solver: str) -> None:
    everyone = list(range(len(SIZES)))
    expected = solve(clients(ALONE, SOLVERS[solver], needs_gradient=True), everyone)
    for how in PLANS.values():
        found = solve(clients(how, SOLVERS[solver], needs_gradient=True), everyone)
        for i in everyone:
            assert int(found[i].steps) == int(expected[i].steps)
            for name in ("x", "gradient"):
                ours, theirs = getattr(found[i], name), getattr(expected[i], name)
                for a, b in zip(tree.leaves(ours), tree.leaves(theirs), strict=True):
                    np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("name", PLANS)
def test_what_is_computed_for_a_client_does_not_depend_on_who_shares_its_call(name: str) -> None:
    compiled = clients(PLANS[name], SOLVERS["sgd"])
    together = solve(compiled, list(range(len(SIZES))))
    for some in ([4], [0, 5, 8], [7, 2]):
        for i, solution in solve(compiled, some).items():
            for a, b in zip(tree.leaves(solution), tree.leaves(together[i]), strict=True):
                np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("how", [ALONE, PLANS["shared"]])
def test_a_compiled_client_does_what_a_plain_loop_does(how: BatchingPolicy) -> None:
    """Batch by batch: every step on rows of its own, those of this client."""
    compiled = clients(how, SOLVERS["sgd"])
    plain = PlainClients(compiled.problem, compiled.local, np.float64)
    x = tree.cast(compiled.problem.init, np.float64)
    for i, found in solve(compiled, list(range(len(SIZES)))).items():
        expected = plain(i, Subproblem(x, x, 2.0 + i, x), np.random.default_rng(i), i, 0.5)
        assert found.steps == expected.steps
        for a, b in zip(tree.leaves(found.x), tree.leaves(expected.x), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)


def test_a_run_agrees_under_both_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = feddr.Problem.classification(feddr.models.mlp([4, 5, 3]), make_classes(SIZES, 4, 3, seed=1))
    found = []
    for how in (batching.CPU, batching.ACCELERATOR):
        monkeypatch.setattr(batching, "choose", lambda how=how: how)
        result = feddr.simulate(
            problem,
            feddr.FedDR(eta=1.0, alpha=1.5),
            local=feddr.local.SGD(lr=0.1, epochs=2, batch_size=5),
            sampling=feddr.sampling.Uniform(4),
            rounds=8,
            precision="float64",
        )
        found.append(result.params)
    for a, b in zip(*map(tree.leaves, found), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9)


@pytest.mark.skipif(limits.cores() == 1, reason="on one core XLA divides nothing")
@pytest.mark.parametrize("layers", [[60, 32, 10], [784, 128, 26]])
def test_no_operation_of_a_client_is_divided_among_threads(layers: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """However many samples and parameters there are; each thread has a client of its own."""
    data = make_classes((20_000, 30), layers[0], layers[-1], seed=0)
    problem = feddr.Problem.classification(feddr.models.mlp(layers), data)
    samples, x = Evaluator(problem, np.float32).samples, tree.cast(problem.init, np.float32)

    def divided() -> bool:
        local = feddr.local.SGD(lr=0.1, batch_size=10)
        compiled = CompiledClients(problem, samples, local, np.float32, False, batching.CPU)
        arguments = compiled.arguments(
            SubproblemTask(1, Subproblem(x, x, 1.0, x), compiled.draw(1, np.random.default_rng(0)))
        )
        code = compiled._one.lower(*arguments).compile().as_text() or ""
        return '"outer_dimension_partitions":["' in code

    assert not divided()
    monkeypatch.setattr(kernel, "known", lambda: False)  # a kernel is not divided in any case
    assert not divided()
    monkeypatch.setattr(batching, "_known", lambda *_: False)
    assert divided()


def test_small_models_are_compiled_without_the_library_where_xla_can(monkeypatch: pytest.MonkeyPatch) -> None:
    many = batching.compiler_options(batching.FEW_PARAMETERS + 1)
    few = batching.compiler_options(batching.FEW_PARAMETERS)
    assert many is not None
    assert few is not None
    assert few.items() > many.items() > {"xla_cpu_multi_thread_eigen": False}.items()
    assert batching.evaluation_options() == batching.NO_LIBRARY
    assert batching.without_library(batching.FEW_PARAMETERS)
    assert not batching.without_library(batching.FEW_PARAMETERS + 1)
    monkeypatch.setattr(batching, "_known", lambda *_: False)
    assert batching.compiler_options(batching.FEW_PARAMETERS) == {"xla_cpu_multi_thread_eigen": False}
    assert batching.evaluation_options() == {}
    assert not batching.without_library(batching.FEW_PARAMETERS)


WHERE = """
import sys, jax, numpy as np, feddr
from feddr.engines.shared.compiled_clients import mean_work
from feddr.xla import batching
data = feddr.FederatedData.from_clients([{"x": np.ones((int(sys.argv[1]), 20)), "y": np.zeros(int(sys.argv[1]), int)}])
problem = feddr.Problem.classification(feddr.models.softmax(20, 10), data)
batching.prepare(mean_work(problem, feddr.local.SGD(lr=0.1, epochs=10, batch_size=10)))
loop = jax.jit(lambda x, n: jax.lax.fori_loop(0, n, lambda _, x: jax.numpy.sin(x) + x * x, x))
jax.block_until_ready(loop(np.ones(5_000, np.float32), 3))
print(loop(np.ones(5_000, np.float32), 20_000).is_ready())
"""


@pytest.mark.parametrize(("size", "in_place"), [(5, False), (5000, True)])
def test_clients_with_much_to_do_are_computed_by_the_thread_that_calls(size: int, in_place: bool) -> None:
    """A call then returns when it is computed, not before; the first run of a process decides it."""
    done = subprocess.run([sys.executable, "-c", WHERE, str(size)], capture_output=True, text=True, timeout=300)
    assert done.stdout.strip() == str(in_place), done.stderr[-2000:]


def test_an_option_that_xla_does_not_have_is_not_known() -> None:
    assert not batching._known("xla_cpu_no_such_option", "")


@pytest.mark.parametrize("batch_size", [5, None])
def test_samples_made_on_demand_are_as_good_as_samples_in_memory(batch_size: int | None) -> None:
    data = make_classes(SIZES, 4, 3, seed=1)
    model = feddr.models.mlp([4, 5, 3])
    on_demand = feddr.FederatedData.generated(data.train.client, SIZES, panel=range(len(SIZES)))
    found = [
        feddr.simulate(
            feddr.Problem.classification(model, federation, weights="samples"),
            feddr.Scaffold(),
            local=feddr.local.SGD(lr=0.1, epochs=2, batch_size=batch_size),
            sampling=feddr.sampling.Uniform(4),
            rounds=6,
            precision="float64",
            personal=True,
        )
        for federation in (feddr.FederatedData(data.train), on_demand)
    ]
    for a, b in zip(tree.leaves(found[0].params), tree.leaves(found[1].params), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-11)
    for column in ("F", "train_accuracy", "gradient_mapping"):
        assert getattr(found[0].history.last, column) == pytest.approx(getattr(found[1].history.last, column), 1e-9)


def test_a_round_of_a_large_federation_touches_its_active_clients_only() -> None:
    n, made = 200_000, Counter[int]()

    def make(i: int) -> Samples:
        made[i] += 1
        rng = np.random.default_rng(i)
        return {"x": rng.normal(size=(3, 4)), "y": rng.integers(0, 3, 3)}

    data = feddr.FederatedData.generated(make, np.full(n, 3), panel=50)
    assert (data.num_clients, sum(made.values()), len(data.panel)) == (n, 50, 50)
    problem = feddr.Problem.classification(feddr.models.softmax(4, 3), data)
    result = feddr.simulate(
        problem,
        feddr.FedDR(eta=1.0, alpha=1.0),
        local=feddr.local.SGD(lr=0.1),
        sampling=feddr.sampling.Uniform(20),
        rounds=5,
    )
    assert sum(made.values()) == 50 + 5 * 20
    assert len(result.state.clients) <= 5 * 20
    assert result.settings["evaluated_on"] == 50
    gap = feddr.certify.bookkeeping_gap(problem, feddr.FedDR(eta=1.0, alpha=1.0), result.state)
    assert gap < 1e-12


def test_a_panel_estimates_the_whole() -> None:
    data = make_classes((8,) * 400, 4, 3, seed=2)
    model = feddr.models.softmax(4, 3)
    whole = feddr.Problem.classification(model, data)
    panel = feddr.Problem.classification(model, feddr.FederatedData.generated(data.train.client, (8,) * 400, panel=200))
    x = tree.map(lambda a: a + 0.1, whole.init)
    assert panel.F(x) == pytest.approx(whole.F(x), rel=0.1)
    assert panel.sample_weights.sum() == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("sizes", "panel", "message"),
    [
        ([], 1, "at least one training sample"),
        ([3, 0], 1, "at least one training sample, got 0"),
        ([3, 3], 0, "at least one client, got 0"),
        ([3, 3], [2], "clients from 0 to 1"),
        ([3, 2], [1], "said to have 2 samples"),
    ],
)
def test_a_federation_that_cannot_be_made_is_refused(sizes: list[int], panel: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        feddr.FederatedData.generated(lambda _: {"x": np.zeros((3, 1)), "y": np.zeros(3)}, sizes, panel=panel)
