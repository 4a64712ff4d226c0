"""PyTorch problems on workers: the bits of any number of workers, and the numbers of the reference."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import feddr
from feddr import tree
from feddr.certify import certificate

torch = pytest.importorskip("torch", reason="pip install 'feddr[torch]'")

from tests.engines.workers.in_process import in_process  # noqa: E402
from tests.engines.workers.small_runs import assert_equal, assert_same, assert_same_certificate  # noqa: E402

__all__ = ["in_process"]

FEDDR = feddr.FedDR(eta=1.0, alpha=1.5)
COMMON: dict[str, Any] = {
    "local": feddr.local.SGD(lr=0.1, epochs=1, batch_size=4),
    "sampling": feddr.sampling.Uniform(6),
    "rounds": 3,
    "evaluate_every": 1,
    "personal": True,
    "per_client": True,
    "progress": False,
}


def problem() -> Any:
    from feddr.torch import TorchProblem

    rng = np.random.default_rng(0)
    clients: list[Any] = []
    for size in rng.integers(4, 9, 12):
        x = rng.normal(size=(size, 5)).astype(np.float32)
        clients.append({"x": x, "y": (x[:, 0] > 0).astype(np.int64)})
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(5, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))
    return TorchProblem(net, feddr.FederatedData.from_clients(clients, clients), g=feddr.prox.L1(1e-3))


@pytest.mark.usefixtures("in_process")
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_workers_have_the_bits_of_one_and_the_numbers_of_the_reference(precision: str) -> None:
    one = feddr.simulate_cluster(problem(), FEDDR, workers=1, precision=precision, **COMMON)
    assert_same(one, feddr.simulate_cluster(problem(), FEDDR, workers=3, precision=precision, **COMMON))
    expected = feddr.reference(problem(), FEDDR, precision=precision, **COMMON)
    rtol = 1e-4 if precision == "float32" else 1e-11
    for name, values in expected.params.items():
        np.testing.assert_allclose(one.params[name], values, rtol=rtol, atol=rtol)
    for name in ("F", "train_loss", "train_accuracy", "test_accuracy", "gradient_mapping", "personal_train_loss"):
        np.testing.assert_allclose(one.history.column(name), expected.history.column(name), rtol=10 * rtol, atol=rtol)


@pytest.mark.usefixtures("in_process")
def test_workers_certify_a_problem_of_pytorch_whose_curvature_is_known() -> None:
    """Softmax regression, written in PyTorch and in JAX."""
    from feddr.torch import TorchProblem

    data, module, g = problem().data, torch.nn.Linear(5, 2), feddr.prox.L1(1e-3)
    torch.nn.init.zeros_(module.weight)
    torch.nn.init.zeros_(module.bias)
    ours = feddr.Problem.classification(feddr.models.softmax(5, 2), data, g=g)

    def curvature(i: int) -> tuple[float, float]:
        bounds = ours.known_curvature(i)
        assert bounds is not None
        return bounds

    theirs = TorchProblem(module, data, g=g, curvature=curvature)
    algorithm = feddr.FedDR(eta=0.1, alpha=1.2, init="lazy", mean="all")
    common: dict[str, Any] = {"local": feddr.local.Accelerated(1e-8), "precision": "float64", "certify": True}
    common = COMMON | common | {"personal": False, "per_client": False}
    there = [feddr.simulate_cluster(theirs, algorithm, workers=count, **common) for count in (1, 3)]
    assert_same(*there)
    assert_same_certificate(*there)
    here = feddr.simulate(ours, algorithm, init=tree.zeros_like(ours.init), **common)
    one, other = certificate(here), certificate(there[0])
    assert one.certified
    assert other.certified
    assert not other.estimated
    assert other.bound == pytest.approx(one.bound, rel=1e-6)
    assert here.watch is not None
    assert there[0].watch is not None
    for mine, its in zip(here.watch.rounds, there[0].watch.rounds, strict=True):
        exact = ("gradient_mapping", "F", "lyapunov")
        np.testing.assert_allclose([getattr(its, n) for n in exact], [getattr(mine, n) for n in exact], rtol=1e-7)
        assert its.errors == pytest.approx(mine.errors, rel=1e-7, abs=1e-15)  # those heard from are exact to 1e-8


@pytest.mark.usefixtures("in_process")
def test_certificates_of_pytorch_need_bounds_on_the_curvature() -> None:
    with pytest.raises(ValueError, match=r"need bounds on the curvature .* got a TorchProblem without: give it"):
        feddr.simulate_cluster(problem(), FEDDR, workers=1, certify=True, **COMMON)
    with pytest.raises(ValueError, match=r"curvature must be \(l, L\) with l <= L"):
        replace(problem(), curvature=(1.0, 0.0))


@pytest.mark.cluster
@pytest.mark.filterwarnings("ignore")  # Ray leaves files open
def test_a_problem_of_pytorch_on_real_workers() -> None:
    pytest.importorskip("ray", reason="pip install 'feddr[ray]'")
    found = feddr.simulate_cluster(problem(), FEDDR, address="local", workers=2, **COMMON)
    assert_equal(found.params, feddr.simulate_cluster(problem(), FEDDR, address="local", workers=1, **COMMON).params)
