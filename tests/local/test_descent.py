"""Prescribed steps and probes: every plan computes them, other solvers refuse them, and others do not pay for them."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import optax
import pytest

import feddr
from feddr import tree
from feddr.algorithms import Algorithm
from feddr.delays import Timing
from feddr.delays.delay import Job
from feddr.engines.shared.compiled_clients import CompiledClients, SubproblemTask
from feddr.engines.shared.evaluation import Evaluator
from feddr.local import Subproblem
from feddr.local.descent import Decoupled, Descent, Dual, Plain, Proximal
from tests.conftest import make_classes
from tests.xla.test_batching import ALONE, PLANS, SIZES

SGD = feddr.local.SGD(lr=0.1, epochs=2, batch_size=7)
PRESCRIBING: list[Algorithm] = [
    feddr.FedMid(),
    feddr.FedMid(proximal="server"),
    feddr.FedMid(proximal="clients"),
    feddr.FedDualAvg(),
    feddr.FedDecoupled(),
    feddr.Scaffnew(p=0.2),
    feddr.FedNova(),
]


def problem(g: feddr.prox.Regulariser | None = None) -> feddr.Problem:
    return feddr.Problem.classification(feddr.models.mlp([4, 5, 3]), make_classes(SIZES, 4, 3, seed=1), g=g)


def clients(p: feddr.Problem, plan: Any, local: feddr.local.LocalSolver = SGD) -> CompiledClients:
    return CompiledClients(p, Evaluator(p, np.float64).samples, local, np.float64, False, plan)


def solve(compiled: CompiledClients, descent: Descent | None, probe: bool) -> dict[int, Any]:
    x = tree.cast(compiled.problem.init, np.float64)
    found: dict[int, Any] = {}
    for call in compiled.calls(range(len(SIZES))):
        tasks = []
        for i in call:
            sub = Subproblem(x, descent=descent, probe=tree.scale(1.0 + i, x) if probe else None)
            tasks.append(SubproblemTask(i, sub, compiled.draw(i, np.random.default_rng(i))))
        found |= dict(zip(call, compiled.solve(tasks), strict=True))
    return found


@pytest.mark.parametrize("descent", [Proximal(), Dual(np.float64(0.3)), Decoupled(np.float64(0.3))], ids=repr)
def test_all_plans_agree(descent: Descent) -> None:
    p = problem(feddr.prox.L1(0.05))
    expected = solve(clients(p, ALONE), descent, probe=True)
    for i, one in expected.items():
        assert float(one.length) == pytest.approx(SGD.rate(k=1) * SGD.num_steps(SIZES[i]))
    for i in (0, 2):
        own = p.client_value_and_gradient(i, tree.scale(1.0 + i, tree.cast(p.init, np.float64)))[1]
        assert tree.norm(tree.sub(expected[i].gradient, own)) < 1e-13
    for name in ("shared", "side by side"):
        for i, other in solve(clients(p, PLANS[name]), descent, probe=True).items():
            for a, b in zip(tree.leaves(other), tree.leaves(expected[i]), strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-13)


def test_plain_steps_are_those_that_nobody_prescribed() -> None:
    p = problem(feddr.prox.L1(0.05))
    free, plain = (solve(clients(p, ALONE), descent, probe=False) for descent in (None, Plain()))
    for i in free:
        assert free[i].length is None
        assert tree.norm(tree.sub(free[i].x, plain[i].x)) < 1e-14


@pytest.mark.usefixtures("x64")
def test_subproblems_without_prescribed_steps_do_not_pay_for_g() -> None:
    """The lowered program is the same whatever g is, and its result has no more leaves than before."""
    x = tree.cast(problem().init, np.float64)
    task = SubproblemTask(0, Subproblem(x, x, 2.0, x), clients(problem(), ALONE).draw(0, np.random.default_rng(0)))
    programs = []
    for g in (None, feddr.prox.L1(0.1), feddr.prox.Nuclear(0.1, mask=feddr.prox.leave("bias"))):
        compiled = clients(problem(g), ALONE)
        programs.append(compiled._one.lower(*compiled.arguments(task)))
    assert programs[0].as_text() == programs[1].as_text() == programs[2].as_text()
    assert len(tree.leaves(programs[0].out_info)) == len(tree.leaves(x)) + 3  # x, steps, error, the kernel's number

    with_g = clients(problem(feddr.prox.L1(0.1)), ALONE)
    composite = task._replace(sub=Subproblem(x, x, 2.0, x, descent=Proximal()))
    assert with_g._one.lower(*with_g.arguments(composite)).as_text() != programs[0].as_text()


@pytest.mark.parametrize("engine", [feddr.simulate, feddr.reference])
@pytest.mark.parametrize(
    "local",
    [
        feddr.local.SGD(lr=0.1, momentum=0.5),
        feddr.local.Optax(optax.adam(0.01)),
        feddr.local.Accelerated(stopping=feddr.local.Epochs(3)),
    ],
    ids=lambda local: type(local).__name__,
)
@pytest.mark.parametrize("algorithm", PRESCRIBING, ids=repr)
def test_solvers_without_plain_steps_are_refused(algorithm: Algorithm, local: Any, engine: Any) -> None:
    data = make_classes((6, 9), 4, 3, seed=1)
    g = feddr.prox.L1(0.1) if algorithm.composite else None
    p = feddr.Problem.classification(feddr.models.softmax(4, 3), data, g=g, curvature=(1.0, 2.0))
    with pytest.raises(ValueError, match=r"prescribe plain gradient steps, got local=.*; use SGD without momentum"):
        engine(p, algorithm, local=local, rounds=1)


@dataclass(frozen=True)
class Noting:
    """A delay that notes the jobs."""

    jobs: list[Job] = field(default_factory=list)

    def check(self, n: int) -> None:
        pass

    def apply(self, job: Job, timing: Timing) -> Timing:
        self.jobs.append(job)
        return timing


@pytest.mark.parametrize("algorithm", [*PRESCRIBING, feddr.MimeLite()], ids=repr)
def test_the_virtual_clock_knows_the_size_of_messages(algorithm: Algorithm) -> None:
    noting, n = Noting(), len(SIZES)
    p = problem(feddr.prox.L1(0.01) if algorithm.composite else None)
    result = feddr.simulate(p, algorithm, local=SGD, rounds=1, clock=feddr.Clock(noting, max_events=1))
    last = result.history.last
    assert (noting.jobs[0].down * n, noting.jobs[0].up * n) == (last.bytes_down, last.bytes_up)
