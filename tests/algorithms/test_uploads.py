"""Compressed uploads: all laws hold, engines agree, bytes are those of the messages, and the limit stays."""

import tomllib

import numpy as np
import pytest

import feddr
from feddr import config, tree
from feddr.algorithms import Algorithm
from feddr.compress import Compressor, Nonzero, Quantised, RandomK, Rounded, TopK
from feddr.testing import check_algorithm

FOUR = Quantised(4)
METHODS: list[Algorithm] = [  # the first four always, the others among the slow tests
    feddr.FedDR(eta=1.0, alpha=1.0, init="lazy", mean="all", upload=FOUR),
    feddr.FedDR(eta=1.0, alpha=1.1, init="joining", mean="active", upload=RandomK(0.5, Quantised(6))),
    feddr.AsyncFedDR(eta=1.0, alpha=1.2, init="joining", mean="all", upload=Quantised(4, stochastic=True)),
    feddr.FedAvg(upload=FOUR),
    feddr.FedProx(mu=0.1, upload=TopK(0.5)),
    feddr.FedAvgM(momentum=0.5, upload=FOUR),
    feddr.FedBuff(buffer=2, upload=FOUR),
    feddr.FedAsync(upload=FOUR),
    feddr.FedPD(eta=1.0, upload=FOUR),
    feddr.FedSplit(eta=1.0, upload=RandomK(0.5)),
    feddr.FedDyn(eta=1.0, upload=FOUR),
    feddr.Scaffold(upload=FOUR),
]


def least_squares(g: feddr.prox.Regulariser | None = None, clients: int = 6) -> feddr.Problem:
    rng = np.random.default_rng(0)
    truth = np.array([1.0, -2.0, 0.0, 0.0, 0.5])
    parts = []
    for _ in range(clients):
        x = rng.normal(size=(20, 5))
        parts.append({"x": x, "y": x @ (truth + 0.3 * rng.normal(size=5)) + 0.1 * rng.normal(size=20)})
    return feddr.Problem(
        loss=lambda params, batch: 0.5 * (batch["x"] @ params - batch["y"]) ** 2,
        data=feddr.FederatedData.from_clients(parts),
        init=np.zeros(5),
        g=g,
        weights="samples",
    )


@pytest.mark.parametrize(
    "method", [*METHODS[:4], *(pytest.param(method, marks=pytest.mark.slow) for method in METHODS[4:])], ids=repr
)
def test_the_laws_of_algorithms_hold(method: Algorithm) -> None:
    check_algorithm(method)


def pooled_lasso(problem: feddr.Problem, strength: float) -> np.ndarray:
    from sklearn.linear_model import Lasso

    samples = problem.data.train.samples
    found = Lasso(alpha=strength, fit_intercept=False, tol=1e-14, max_iter=10**6).fit(samples["x"], samples["y"])
    return np.asarray(found.coef_)


SLOW = [Quantised(2), Quantised(4, block=2, stochastic=True), RandomK(0.4), TopK(0.4, Quantised(3))]


@pytest.mark.parametrize(
    "compressor", [FOUR, TopK(0.2), *(pytest.param(one, marks=pytest.mark.slow) for one in SLOW)], ids=repr
)
def test_feddr_reaches_the_pooled_lasso_with_every_compressor(compressor: Compressor) -> None:
    """Half of the clients a round, certified prox: error feedback leaves the solution where scikit-learn has it."""
    problem = least_squares(feddr.prox.L1(0.1))
    result = feddr.simulate(
        problem,
        feddr.FedDR(eta=0.3, alpha=1.0, upload=compressor),
        local=feddr.local.Accelerated(tol=1e-12),
        sampling=feddr.sampling.Uniform(3),
        rounds=400,
        evaluate_every=400,
        precision="float64",
    )
    np.testing.assert_allclose(result.params, pooled_lasso(problem, 0.1), atol=1e-6)


@pytest.mark.parametrize("init", ["lazy", "full", "joining"])
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_the_invariant_is_as_exact_as_without_compression(init: str, precision: str) -> None:
    problem = least_squares()
    result = feddr.simulate(
        problem,
        feddr.FedDR(eta=0.5, alpha=1.2, init=init, mean="all", upload=FOUR),
        local=feddr.local.SGD(lr=0.05),
        sampling=feddr.sampling.Uniform(2),
        rounds=30,
        precision=precision,
    )
    weights, state = problem.client_weights, result.state
    counted = {i: w for i, w in enumerate(weights) if i in state.clients or init == "lazy"}
    total = sum(
        w * np.float64(state.clients[i].xhat if i in state.clients else problem.init) for i, w in counted.items()
    )
    np.testing.assert_allclose(state.server.xtilde, total / sum(counted.values()), atol=1e-12)


def test_bytes_are_those_of_the_messages() -> None:
    problem = feddr.Problem.classification(
        feddr.models.mlp([60, 32, 10]), feddr.datasets.synthetic(1, 1, num_clients=3, seed=0)
    )
    sent = {}
    for compressor in (None, FOUR, TopK(0.1, Quantised(8))):
        result = feddr.simulate(
            problem, feddr.FedDR(1.0, 1.0, upload=compressor), local=feddr.local.SGD(lr=0.01), rounds=2
        )
        sent[compressor] = result.history.last.bytes_up
    like = tree.cast(problem.init, np.float32)
    assert sent[None] == 2 * 3 * 4 * tree.size(like)
    for compressor in (FOUR, TopK(0.1, Quantised(8))):
        assert sent[compressor] == 2 * 3 * len(compressor.encode(like))
    assert sent[FOUR] < 0.14 * sent[None]
    scaffold = feddr.simulate(problem, feddr.Scaffold(upload=FOUR), local=feddr.local.SGD(lr=0.01), rounds=2)
    assert scaffold.history.last.bytes_up == 2 * sent[FOUR]


def test_a_compressor_is_named_and_its_absence_is_not() -> None:
    assert repr(feddr.FedAvg()) == "FedAvg()"
    assert repr(feddr.FedAvg(upload=TopK(0.1))) == "FedAvg(upload=TopK(share=0.1, values_as=None))"
    assert "upload" not in repr(feddr.AsyncFedDR())


@pytest.mark.parametrize(
    ("method", "hypothesis"),
    [(feddr.FedDR(upload=FOUR), "uploads"), (feddr.FedDR(download=Rounded()), "broadcasts")],
    ids=str,
)
def test_a_certificate_asks_for_every_bit(method: feddr.FedDR, hypothesis: str) -> None:
    problem = least_squares()
    result = feddr.simulate(
        problem,
        method,
        local=feddr.local.Accelerated(stopping=feddr.local.Absolute(1e-3)),
        rounds=3,
        certify=True,
        precision="float64",
    )
    failed = [one.name for one in feddr.certify.certificate(result).hypotheses if not one.holds]
    assert failed == [hypothesis]


FORTH = {"name": "TopK", "share": 0.1, "values_as": {"name": "Quantised", "bits": 4}}
BACK = {"name": "Nonzero", "values_as": {"name": "Rounded", "to": "bfloat16"}}


def test_a_config_names_compressors() -> None:
    tables = {
        "name": "small",
        "rounds": 1,
        "data": {"name": "synthetic", "r": 1.0, "s": 1.0, "num_clients": 3},
        "model": {"name": "softmax", "num_features": 60, "num_classes": 10},
        "local": {"name": "SGD", "lr": 0.01},
        "algorithm": [{"name": "FedDR", "upload": FORTH, "download": BACK}],
    }
    parsed = config.parse(tables)
    assert config.parse(tomllib.loads(config.dumps(parsed))) == parsed
    _, (run,) = config.build(parsed)
    expected = feddr.FedDR(upload=TopK(0.1, Quantised(4)), download=Nonzero(Rounded("bfloat16")))
    assert run.algorithm == expected
