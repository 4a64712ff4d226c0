"""Private deployments: the site keeps the account, the noise is its secret, and no budget is exceeded."""

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from flwr.app import Message
from scipy import stats

import feddr
from feddr import flower
from feddr.flower import private
from feddr.flower.node import Node
from feddr.flower.private import SecretNoise, SiteAccount
from feddr.local import Solution, Subproblem
from feddr.privacy import RecordLevel, SiteLevel, epsilon_of_uploads
from feddr.sites import SiteRefusal
from feddr.storage import tensors
from tests.flower.fake_grid import FakeGrid, FakeNode, Fate
from tests.flower.federations import app_for, deploy, events, federation_of, lasso, populated

NOISE, DELTA = 4.0, 1e-3
LOCAL = feddr.local.SGD(lr=0.05, epochs=1, batch_size=5)
SUB = Subproblem(start=np.zeros(3))


def method(budget: float | None = None, noise: float = NOISE) -> Any:
    privacy = SiteLevel(clip=0.5, noise=noise, delta=DELTA, budget=budget)
    return feddr.FedDR(eta=0.5, alpha=1.2, init="joining", mean="all", privacy=privacy)


def of_records(budget: float | None = None, noise: float = NOISE, epochs: int = 2) -> Any:
    privacy = RecordLevel(clip=0.5, noise=noise, delta=DELTA, budget=budget, epochs=epochs)
    return feddr.FedDR(eta=0.5, alpha=1.2, init="joining", mean="all", privacy=privacy)


def run(folder: Path, algorithm: Any, grid: FakeGrid | None = None, local: Any = LOCAL, **more: Any) -> feddr.History:
    grid = FakeGrid() if grid is None else grid
    populated(grid, app_for(lasso(), algorithm, local), range(3), folder)
    settings: dict[str, Any] = {"rounds": 3, "precision": "float64"} | more
    return deploy(grid, federation_of(lasso()), algorithm, folder, **settings)


def spent(folder: Path) -> list[float]:
    return [private.account(folder / f"disk-{i}", i).spent * NOISE**2 / 4 for i in range(3)]


def test_the_noise_of_sites_is_normal_and_never_the_same() -> None:
    one, other = (SecretNoise().standard_normal((100, 200)).ravel() for _ in range(2))
    assert stats.kstest(one, "norm").pvalue > 1e-6
    assert abs(np.corrcoef(one, other)[0, 1]) < 0.05
    assert SecretNoise().standard_normal(()).shape == ()


def test_the_history_has_what_the_sites_have_spent(tmp_path: Path) -> None:
    history = run(tmp_path, method())
    expected = [epsilon_of_uploads(NOISE, DELTA, k) for k in range(4)]
    np.testing.assert_allclose(history.column("epsilon"), expected, rtol=1e-9)
    assert history.column("delta") == [DELTA] * 4
    assert spent(tmp_path) == [3.0, 3.0, 3.0]
    assert flower.read_run(tmp_path / "server" / "feddr").numbers == {0: 3, 1: 3, 2: 3}


def test_two_runs_of_one_seed_have_other_noise(tmp_path: Path) -> None:
    """The server knows the seed of the run, and must not be able to take the noise away."""
    models = []
    for name in ("a", "b"):
        run(tmp_path / name, method())
        models.append(flower.read_run(tmp_path / name / "server" / "feddr").server["xbar"])
    assert np.abs(models[0] - models[1]).max() > 0.01


def test_the_round_that_would_exceed_the_budget_is_not_begun(tmp_path: Path) -> None:
    cost = epsilon_of_uploads(NOISE, DELTA, 2)
    for name, budget, rounds in (("enough", cost * (1 + 1e-9), 2), ("less", cost * (1 - 1e-9), 1)):
        history = run(tmp_path / name, method(budget), rounds=5)
        assert history.last.round == rounds
        assert history.last.value("epsilon") <= budget
        assert spent(tmp_path / name) == [rounds] * 3
        (end,) = events(tmp_path / name, "stopping")
        assert "a further round would make epsilon" in end["reason"]
        again = run(tmp_path / name, method(budget), rounds=5)  # submitted again, it ends where it had ended
        assert (again.last.round, spent(tmp_path / name)) == (rounds, [rounds] * 3)


def test_a_reply_that_was_lost_is_sent_again_and_costs_nothing(tmp_path: Path) -> None:
    lost: list[Message] = []

    def fate(node: FakeNode, message: Message) -> Fate:
        if message.metadata.message_type == "train" and node.client == 1 and len(lost) < 2:
            lost.append(message)
            return Fate(error=3)  # after the work was done
        return Fate()

    history = run(tmp_path, method(epsilon_of_uploads(NOISE, DELTA, 3) * (1 + 1e-9)), FakeGrid(fate=fate))
    assert len(lost) == 2
    assert history.last.round == 3
    assert spent(tmp_path) == [3.0, 3.0, 3.0]


def test_an_update_from_another_broadcast_is_a_release_of_its_own(tmp_path: Path) -> None:
    """The replies of client 2 are lost, and rounds end without it: nothing of it is counted, all of it was released."""

    def fate(node: FakeNode, message: Message) -> Fate:
        return Fate(lost="reply" if node.client == 2 and message.metadata.message_type == "train" else "")

    run(tmp_path, method(), FakeGrid(fate=fate), deadline=10.0)
    assert flower.read_run(tmp_path / "server" / "feddr").numbers == {0: 3, 1: 3}
    assert spent(tmp_path) == [3.0, 3.0, 3.0]


def release(account: SiteAccount, rules: Any, update: int, x: float = 1.0) -> tuple[Any, float]:
    seen, total = account.release(rules, LOCAL, SUB, ["run", update], lambda: Solution(np.full(3, x), 1, 0.5))
    assert math.isnan(seen.error)
    return seen.x, total


def test_accounts_add_up_over_runs_with_other_noises(tmp_path: Path) -> None:
    account = SiteAccount(tmp_path)
    release(account, method(noise=3.0), 1)
    _, total = release(account, method(noise=4.0), 2)
    assert total == account.spent == pytest.approx(4 / 9 + 4 / 16)


def test_a_site_refuses_beyond_its_budget_whatever_the_server_asks(tmp_path: Path) -> None:
    account, rules = SiteAccount(tmp_path), method(epsilon_of_uploads(NOISE, DELTA, 2) * (1 + 1e-9))
    for update in (1, 2):
        last, _ = release(account, rules, update)
    with pytest.raises(SiteRefusal, match="A site keeps to its budget, a further round would make epsilon"):
        release(account, rules, 3)
    assert account.spent == pytest.approx(2 * 4 / NOISE**2)  # the refusal has released nothing
    np.testing.assert_array_equal(release(account, rules, 2, x=-1.0)[0], last)  # even if the data were other ones
    assert account.spent == pytest.approx(2 * 4 / NOISE**2)


def test_a_damaged_account_is_not_an_empty_one(tmp_path: Path) -> None:
    account = SiteAccount(tmp_path)
    release(account, method(), 1)
    path = account.records.path(1)
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(tensors.DamagedError):
        release(account, method(), 2)


def test_what_a_site_keeps_and_sends_comes_from_its_release(tmp_path: Path) -> None:
    """The state on the node's disk is that of the rules at the released model: nothing beside it is sent."""
    run(tmp_path, method(), rounds=1)
    account = private.account(tmp_path / "disk-0", 0)
    x = tensors.read(account.records.path(1)).arrays
    (stored,) = (tmp_path / "disk-0" / "node" / "feddr" / "client-0" / "state").glob("*.safetensors")
    own = tensors.read(stored).arrays
    np.testing.assert_array_equal(own["x"], x["x"])
    np.testing.assert_array_equal(own["xhat"], 2 * own["x"] - own["y"])
    counted = tensors.read(tmp_path / "server" / "feddr" / "table" / "0-1.safetensors").arrays
    np.testing.assert_array_equal(counted["x"], own["xhat"])


TWICE = feddr.local.SGD(lr=0.05, epochs=2, batch_size=5)


def test_passes_over_records_are_what_a_site_and_the_server_count(tmp_path: Path) -> None:
    """Two passes an update: the third round would exceed the budget of five passes, and is not begun."""
    method = of_records(epsilon_of_uploads(NOISE, DELTA, 5))
    history = run(tmp_path, method, local=TWICE)
    expected = [epsilon_of_uploads(NOISE, DELTA, 2 * k) for k in range(3)]
    np.testing.assert_allclose(history.column("epsilon"), expected, rtol=1e-9)
    assert spent(tmp_path) == [4.0, 4.0, 4.0]
    account = private.account(tmp_path / "disk-0", 0)
    with pytest.raises(ValueError, match="A site keeps to its budget"):
        release(account, method, 9)


def test_the_noise_of_steps_is_a_secret_of_the_site(tmp_path: Path) -> None:
    """Two runs of one seed have the same batches, and differ by noise alone; with hardly any they are the same."""
    models: dict[float, list[Any]] = {}
    for noise in (NOISE, 1e-5):
        for name in ("a", "b"):
            run(tmp_path / f"{noise}" / name, of_records(noise=noise), local=TWICE, rounds=1)
            books = flower.read_run(tmp_path / f"{noise}" / name / "server" / "feddr")
            models.setdefault(noise, []).append(books.server["xtilde"])
    assert np.abs(models[NOISE][0] - models[NOISE][1]).max() > 0.01
    assert 0.0 < np.abs(models[1e-5][0] - models[1e-5][1]).max() < 1e-5


def test_a_site_refuses_local_work_of_more_passes_than_are_counted(tmp_path: Path) -> None:
    node = Node(0, lambda: lasso(), of_records(epochs=1), TWICE, tmp_path)
    rules = node.algorithm
    state = rules.client(np.zeros(3), np.zeros(3))
    with pytest.raises(ValueError, match="epochs=1, and SGD makes 2; give both the same epochs"):
        node.solved(rules, state, np.zeros(3), SimpleNamespace(seed=0), 0)  # type: ignore[arg-type]
    assert not (tmp_path / "privacy").exists()


def test_what_hides_a_site_hides_its_records_and_not_the_other_way_round(tmp_path: Path) -> None:
    account = SiteAccount(tmp_path)
    release(account, method(noise=3.0), 1)
    _, total = release(account, of_records(noise=4.0), 2)
    assert total == pytest.approx(4 / 9 + 2 * 4 / 16)
    with pytest.raises(ValueError, match="hide single records and not the site as a whole"):
        release(account, method(noise=3.0), 3)
    assert account.spent == total


@pytest.mark.parametrize(
    ("algorithm", "more", "message"),
    [
        (feddr.AsyncFedDR(eta=0.5, alpha=0.8, privacy=SiteLevel(1.0, 1.0, 1e-3)), {}, "accounted in rounds, and Async"),
        (feddr.FedAvg(privacy=SiteLevel(1.0, 1.0, 1e-3, sees="models")), {}, 'sees uploads, got sees="models"'),
        (method(), {"evaluation": "nodes"}, "Metrics of nodes have no noise"),
    ],
)
def test_what_is_not_accounted_is_refused(tmp_path: Path, algorithm: Any, more: Any, message: str) -> None:
    problem = lasso() if algorithm.composite else feddr.Problem(lasso().loss, lasso().data, lasso().init)
    with pytest.raises(ValueError, match=message):
        deploy(FakeGrid(), federation_of(problem, **more), algorithm, tmp_path, rounds=1)
