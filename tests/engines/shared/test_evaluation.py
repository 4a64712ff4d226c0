import numpy as np
import pytest

import feddr
from feddr import tree
from feddr.engines.shared import pieces
from feddr.engines.shared.evaluation import Evaluator
from feddr.xla.thread_pool import ThreadPool
from tests.conftest import make_classes


@pytest.mark.parametrize("samples", [1, 7, 8, 9, 64, 75, 200])
def test_metrics_are_the_same_in_however_many_pieces_and_threads(samples: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces of whole chunks, the last of them not full, fewer chunks than pieces and more."""
    monkeypatch.setattr(pieces, "CHUNK", 8)
    monkeypatch.setattr(pieces, "PIECE", 64)
    data = make_classes((samples, 3), 4, 3, seed=0)
    problem = feddr.Problem.classification(feddr.models.mlp([4, 5, 3]), data, g=feddr.prox.L1(0.01))
    x = tree.map(lambda a: a + 0.1, problem.init)
    found = [Evaluator(problem, np.float64).at(x)]
    for threads in (1, 3):
        with ThreadPool(threads) as crew:
            found.append(Evaluator(problem, np.float64, crew).at(x))
    for metrics in found:
        assert metrics["f"] == pytest.approx(problem.f(x), rel=1e-13)
        assert metrics["F"] == pytest.approx(problem.F(x), rel=1e-13)
        assert metrics["gradient_mapping"] == pytest.approx(tree.norm(problem.gradient_mapping(x)), rel=1e-11)
        scores = [problem.correct(x, client) for client in map(data.train.client, range(2)) if problem.correct]
        assert metrics["train_accuracy"] == pytest.approx(np.concatenate(scores).mean())
    assert found[1] == pytest.approx(found[2], rel=0, abs=0, nan_ok=True)
