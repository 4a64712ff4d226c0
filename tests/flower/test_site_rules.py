"""A site's rules hold whatever the server asks for, each tried in both directions; what leaves is in the site's log."""

import json
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import ArrayRecord, Message

import feddr
from feddr import flower
from feddr.flower import Abandoned, wire
from feddr.flower.guard import content_digest
from feddr.sites import verify
from tests.flower.fake_grid import FakeGrid, FakeNode, Fate
from tests.flower.federations import (
    app_for,
    classes,
    deploy,
    distance,
    events,
    federation_of,
    lasso,
    one_client,
    xbar_of,
)

METHOD = feddr.FedDR(eta=0.5, alpha=1.2)
LOCAL = feddr.local.Accelerated(tol=1e-10)
SIZES = (20, 12, 30)
HASH = "sha256:" + "0a" * 32


def run(
    folder: Path,
    rules: str,
    method: Any = METHOD,
    experiment: str = "",
    fate: Any = None,
    problem: feddr.Problem | None = None,
    local: Any = LOCAL,
    **settings: Any,
) -> Any:
    """Deploy the lasso over three sites, the second of which has a file with these rules."""
    problem = lasso() if problem is None else problem
    (folder / "site.toml").write_text(f"[rules]\n{rules}")
    grid = FakeGrid() if fate is None else FakeGrid(fate=fate)
    app = app_for(problem, method, local, experiment=experiment)
    for client in range(problem.data.num_clients):
        node = grid.add(client, app, folder / f"disk-{client}")
        if client == 1:
            node.config["feddr-site"] = str(folder / "site.toml")
    federation = federation_of(problem, evaluation=settings.pop("evaluation", None))
    defaults: dict[str, Any] = {"rounds": 2, "precision": "float64", "patience": 100.0}
    return deploy(grid, federation, method, folder, **defaults | settings)


def log(folder: Path, client: int = 1) -> list[dict[str, Any]]:
    path = folder / f"disk-{client}" / "audit" / "log.jsonl"
    verify(path)
    return [json.loads(line) for line in path.read_text().splitlines()]


def sent(folder: Path, kind: str = "train") -> int:
    return sum(line["kind"] == kind for line in log(folder))


ALLOWED = [
    ("minimum_records = 12", {}),
    ("minimum_sites = 3", {}),
    ("minimum_sites = 2", {"deadline": 1e6, "min_replies": 2}),
    (f'experiments = ["{HASH}"]', {"experiment": HASH}),
    ("largest_updates = 2", {}),
    ("maximal_norm = 1e6", {}),
    ("minimum_sites = 1", {"method": feddr.AsyncFedDR(eta=0.5, alpha=1.0)}),
]

REFUSED = [
    ("minimum_records = 13", {}, "at least 13 training records"),
    ("minimum_sites = 4", {}, "rounds of at least 4 sites, this one ends with 3"),
    ("minimum_sites = 3", {"deadline": 1e6, "min_replies": 2}, "rounds of at least 3 sites"),
    ("minimum_sites = 2", {"method": feddr.AsyncFedDR(eta=0.5, alpha=1.0)}, "at least 2 sites, this one ends with 1"),
    (f'experiments = ["{HASH}"]', {}, "this app has code of its own"),
    (f'experiments = ["{HASH}"]', {"experiment": HASH.replace("0a", "0b")}, "this one is sha256:0b0b"),
    ("maximal_norm = 1e-6", {}, "updates of norm 1e-06 or less"),
]


@pytest.mark.parametrize(("rules", "more"), ALLOWED, ids=[rules for rules, _ in ALLOWED])
def test_what_the_rules_allow_is_the_run_without_rules(tmp_path: Path, rules: str, more: dict[str, Any]) -> None:
    (tmp_path / "free").mkdir()
    run(tmp_path, rules, **more)
    run(tmp_path / "free", "", **more)
    assert distance(xbar_of(tmp_path), xbar_of(tmp_path / "free")["xbar"]) == 0.0
    assert sent(tmp_path) >= 1


@pytest.mark.parametrize(("rules", "more", "words"), REFUSED, ids=[f"{r} {m}"[:40] for r, m, _ in REFUSED])
def test_what_the_rules_do_not_allow_never_leaves(tmp_path: Path, rules: str, more: dict[str, Any], words: str) -> None:
    asynchronous = "method" in more
    with pytest.raises(Abandoned) if not asynchronous else nullcontext():
        run(tmp_path, rules, **more)
    assert sent(tmp_path) == 0
    reasons = [str(event.get("reason", "")) + str(event.get("detail", "")) for event in events(tmp_path)]
    assert any(words in reason for reason in reasons)
    assert not list((tmp_path / "disk-1").glob("node/*/*/state*/*"))  # what was refused has not happened


def test_the_largest_number_of_updates_holds_over_runs_of_other_names(tmp_path: Path) -> None:
    with pytest.raises(Abandoned):
        run(tmp_path, "largest_updates = 2", rounds=3)
    assert sent(tmp_path) == 2
    with pytest.raises(Abandoned):
        run(tmp_path, "largest_updates = 2", name="another", rounds=1)
    assert sent(tmp_path) == 2
    run(tmp_path, "largest_updates = 2", name="a-third", experiment=HASH)  # another experiment has its own
    assert sent(tmp_path) == 4


@pytest.mark.parametrize("limit", [0.05, 0.2])
def test_an_update_is_clipped_to_the_norm_on_its_way(tmp_path: Path, limit: float) -> None:
    """What arrives lies between the broadcast and the update as it was, at the distance that is allowed."""
    (tmp_path / "free").mkdir()
    arrived: dict[str, list[Any]] = {"clipped": [], "free": []}

    def spy(name: str) -> Any:
        def fate(node: FakeNode, message: Message) -> Fate:
            def change(reply: Message) -> Message:
                if node.client == 1 and message.metadata.message_type == "train":
                    arrays = reply.content["arrays"]
                    assert isinstance(arrays, ArrayRecord)
                    arrived[name].append(next(iter(arrays.values())).numpy())
                return reply

            return Fate(change=change)

        return fate

    run(tmp_path, f'maximal_norm = {limit}\nbeyond_norm = "clip"', fate=spy("clipped"))
    run(tmp_path / "free", "", fate=spy("free"))
    first, whole = arrived["clipped"][0], arrived["free"][0]  # both from the start, which is zero
    assert np.linalg.norm(whole) > limit
    np.testing.assert_allclose(first, limit / np.linalg.norm(whole) * whole, rtol=1e-12)
    norms = [line["norm"] for line in log(tmp_path) if line["kind"] == "train"]
    assert max(norms) <= limit * (1 + 1e-12)
    assert norms[0] == pytest.approx(limit, rel=1e-12)
    (state,) = events(tmp_path, "audit")[-1:]
    assert state["error"] < 1e-14  # xtilde is the mean of what was sent, not of what was clipped


def test_a_compressed_update_is_refused_rather_than_clipped(tmp_path: Path) -> None:
    method = feddr.FedDR(eta=0.5, alpha=1.2, upload=feddr.compress.Quantised(8))
    with pytest.raises(Abandoned):
        run(tmp_path, 'maximal_norm = 1e-6\nbeyond_norm = "clip"', method)
    assert "a compressed update cannot be clipped, nor" in events(tmp_path, "error")[0]["reason"]
    assert sent(tmp_path) == 0
    run(tmp_path, 'maximal_norm = 1e6\nbeyond_norm = "clip"', method, name="wide")
    assert sent(tmp_path) == 2


def test_an_evaluation_of_few_records_does_not_leave(tmp_path: Path) -> None:
    (tmp_path / "free").mkdir()
    kept = run(tmp_path, "fewest_records_evaluated = 13", evaluation="nodes").last
    free = run(tmp_path / "free", "fewest_records_evaluated = 12", evaluation="nodes").last
    assert np.isnan(kept.F)  # which needs the loss of every site
    assert free.F > 0
    assert kept.train_loss != free.train_loss  # the mean over those who tell
    assert kept.round == free.round == 2


def test_test_records_are_looked_at_by_themselves(tmp_path: Path) -> None:
    data = classes()
    node = one_client(data, 1)
    assert node.data.test is not None
    few = node.data.test.num_samples + 1
    (tmp_path / "free").mkdir()
    assert few <= node.data.train.num_samples
    sgd = feddr.local.SGD(lr=0.1, batch_size=5)
    more: dict[str, Any] = {"evaluation": "nodes", "problem": data, "rounds": 1, "local": sgd}
    kept = run(tmp_path, f"fewest_records_evaluated = {few}", **more)
    free = run(tmp_path / "free", f"fewest_records_evaluated = {few - 1}", **more)
    assert kept.last.train_loss == free.last.train_loss
    assert kept.last.test_accuracy != free.last.test_accuracy


def test_everything_that_leaves_is_in_the_log_before(tmp_path: Path) -> None:
    """Each reply that the server gets has a line with its bytes and its digest, also at sites without a file."""
    replies: dict[int, list[tuple[str, int, str]]] = {0: [], 1: []}

    def fate(node: FakeNode, message: Message) -> Fate:
        def change(reply: Message) -> Message:
            if node.client in replies:
                kind = message.metadata.message_type
                replies[node.client].append((kind, wire.size(reply.content), content_digest(reply.content)))
            return reply

        return Fate(change=change)

    run(tmp_path, "minimum_sites = 3", fate=fate, evaluation="nodes")
    for client in (0, 1):
        lines = log(tmp_path, client)
        assert sorted((line["bytes"], line["sha256"]) for line in lines) == sorted(
            (size, sha) for _, size, sha in replies[client]
        )
        kinds = [line["kind"] for line in lines]
        assert (kinds.count("hello"), kinds.count("train"), kinds.count("evaluate")) == (1, 2, 2)
        assert [line["round"] for line in lines if line["kind"] == "train"] == [1, 2]
        assert {line["client"] for line in lines} == {client}


def test_the_digest_is_of_every_part_of_a_message() -> None:
    from flwr.app import Array, ConfigRecord, RecordDict

    def content(value: float = 1.0, name: str = "x", run: str = "a") -> RecordDict:
        arrays = ArrayRecord({name: Array(np.array([value, 2.0]))})
        return RecordDict({"feddr": ConfigRecord({"run": run}), "arrays": arrays})

    digests = {content_digest(one) for one in (content(), content(1.5), content(name="y"), content(run="b"))}
    assert len(digests) == 4
    assert content_digest(content()) in digests


@pytest.mark.parametrize("has_file", [True, False])
def test_the_text_of_an_error_stays_at_a_site_with_a_file(tmp_path: Path, has_file: bool) -> None:
    """An exception may quote a row, and Flower sends its text to the server."""

    def problem(client: int, context: Any) -> feddr.Problem:
        del context
        if client == 1:
            raise ValueError("line 7: the patient is called Miller")
        return one_client(lasso(), client)

    app = flower.client_app(problem, METHOD, LOCAL)
    grid = FakeGrid()
    nodes = [grid.add(client, app, tmp_path / f"disk-{client}") for client in range(3)]
    (tmp_path / "site.toml").write_text("")
    if has_file:
        nodes[1].config["feddr-site"] = str(tmp_path / "site.toml")
    with pytest.raises(Abandoned) as error:
        deploy(grid, federation_of(lasso()), METHOD, tmp_path, rounds=1, precision="float64", patience=50.0)
    everything = str(error.value) + (tmp_path / "server/feddr/log.jsonl").read_text()
    assert ("Miller" in everything) is not has_file
    assert ("ValueError at this site; the log of its node says more" in everything) is has_file
    assert {line["kind"] for line in log(tmp_path)} == {"hello", "error"}


def test_a_log_that_cannot_be_written_lets_nothing_leave(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> str:
        raise OSError(28, "No space left on device", str(tmp_path))

    monkeypatch.setattr("feddr.sites.audit.AuditLog.append", full)
    with pytest.raises(Abandoned):
        run(tmp_path, "", rounds=1)
    assert events(tmp_path, "accepted") == []
    (refused, *_) = events(tmp_path, "node_refused")
    assert "The log of this site cannot be written, so nothing leaves" in refused["detail"]
    assert "No space" not in refused["detail"]
