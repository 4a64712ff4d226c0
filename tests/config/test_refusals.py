"""Configs: what is refused, in which words, and what overrides change."""

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from feddr import config
from feddr.config import ConfigError
from feddr.config.overrides import override
from tests.config.test_schema import SMALL, TWO, changed


def refusal(raw: Mapping[str, Any]) -> str:
    with pytest.raises(ConfigError) as caught:
        config.build(config.parse(raw))
    assert "\n" not in str(caught.value)
    return str(caught.value)


FEDDR = dict(SMALL["algorithm"])
SGD = dict(SMALL["local"])
NAMES = (
    "AsyncFedDR, CA2FL, FedAdagrad, FedAdam, FedAsync, FedAvg, FedAvgM, FedBuff, FedDR, FedDecoupled, FedDualAvg, "
    "FedDyn, FedMid, FedNova, FedOpt, FedPD, FedProx, FedSplit, FedYogi, MimeLite, Scaffnew, Scaffold"
)
ASYNC = {"name": "AsyncFedDR", "eta": 1}
CLOCK: dict[str, Any] = {"engine": "clock", "updates": 5}
FEDDR_HAS = (
    "algorithm.etta is not a setting of FedDR; it has eta, alpha, init, start, mean, upload, download, privacy, "
    "alpha_decay."
)
REFUSALS: list[tuple[dict[str, Any], str]] = [
    ({"algorithm": {"name": "FedDR", "etta": 1}}, FEDDR_HAS + " Did you mean eta?"),
    (
        {"algorithm": {"name": "FedAvg", "eta": 1}},
        "algorithm.eta is not a setting of FedAvg; it has upload, download, privacy.",
    ),
    ({"algorithm": {"name": "feddr"}}, f'algorithm.name must be one of {NAMES}, got "feddr". Did you mean FedDR?'),
    ({"algorithm": {"eta": 1}}, f"algorithm.name is missing; it is one of {NAMES}."),
    ({"algorithm": {"name": "FedPD"}}, "algorithm.eta is missing; FedPD needs it."),
    (
        {"algorithm": [{**FEDDR, "eta": "x"}, {"name": "FedAvg"}]},
        'algorithm.FedDR.eta must be a number or "auto" or a list of numbers, got',
    ),
    ({"algorithm": {**FEDDR, "alpha": 3}}, 'algorithm FedDR: alpha must be in (0, 2], or "auto", got 3.0.'),
    ({"algorithm": {**FEDDR, "alpha": True}}, 'algorithm.alpha must be a number or "auto", got true.'),
    ({"algorithm": []}, "algorithm is missing; an experiment needs one or more."),
    ({"algorithm": "FedDR"}, 'algorithm must be a table with a name, got "FedDR".'),
    ({"algorithm": [{**TWO[0], "label": "a"}, {**TWO[1], "label": "A"}]}, "algorithm.label must differ between"),
    ({"algorithm": {**FEDDR, "label": "a/b"}}, 'algorithm.label must be a plain name for a folder, got "a/b".'),
    ({"algorithm": {**FEDDR, "label": "summary.csv"}}, "algorithm.label must be a plain name for a folder"),
    ({"local": {**SGD, "epochs": "twenty"}}, 'local.epochs must be a whole number, got "twenty".'),
    ({"local": {**SGD, "epochs": 1.0}}, "local.epochs must be a whole number, got 1.0."),
    ({"local": {**SGD, "batch_size": "all"}}, 'local.batch_size must be a whole number or "none", got "all".'),
    ({"local": {**SGD, "epochs": 0}}, "local SGD: epochs must be at least 1, got 0."),
    ({"local": {"name": "Optax", "optimiser": "sdg", "lr": 1}}, "local Optax: optimiser must be one of ada"),
    ({"local": {"name": "Optax", "optimiser": "sgd", "lr": 0}}, "local Optax: lr must be positive, got 0.0."),
    ({"algorithm": {"name": "FedOpt", "optimiser": "sdg", "lr": 1}}, "algorithm FedOpt: optimiser must be one of ada"),
    ({"algorithm": {"name": "FedOpt", "optimiser": "sgd", "lr": 0}}, "algorithm FedOpt: lr must be positive, got 0.0."),
    ({"algorithm": {"name": "FedOpt", "lr": 1}}, "algorithm.optimiser is missing; FedOpt needs it."),
    ({"algorithm": {"name": "FedAdam", "lr": 1}}, "algorithm.lr is not a setting of FedAdam; it has server_lr, b1, b2"),
    ({"algorithm": {"name": "FedAvgM", "momentum": 1}}, "algorithm FedAvgM: momentum must be at least 0 and below 1"),
    ({"local": {"name": "Accelerated", "stopping": {"name": "Epoch"}}}, "local.stopping.name must be one of Absolute"),
    ({"local": {"name": "Accelerated", "stopping": 3}}, "local.stopping must be a table with a name, got 3."),
    ({"algorithm": {**FEDDR, "local": {"name": "SGD"}}}, "algorithm.local.lr is missing; SGD needs it."),
    ({"model": {"name": "mlp", "sizes": [60, "x"]}}, 'model.sizes must be a list of whole numbers, got [60, "x"].'),
    ({"sampling": {"name": "Uniform", "m": 4}}, "algorithm FedDR: Uniform draws m distinct clients, got m=4 for n=3"),
    ({"algorithm": TWO, "sampling": {"name": "Uniform", "m": 2}}, "algorithm FedPD: FedPD needs every client"),
    ({"algorithm": {"name": "FedAvg"}, "g": {"name": "L1", "strength": 1}}, "algorithm FedAvg: FedAvg has no"),
    ({"g": {"name": "L1", "strength": -1}}, "g L1: L1 needs a finite strength of 0 or more, got -1.0"),
    ({"g": {"name": "Scaled", "factor": 1, "g": {"name": "L1"}}}, "g.g.strength is missing; L1 needs it."),
    ({"g": {"name": "Parts", "parts": [1]}}, "g.parts must be a table of tables, got [1]."),
    ({"g": {"name": "L1", "strength": 1, "mask": True}}, "g.mask is not a setting of L1; it has strength, leave."),
    ({"g": {"name": "L1", "strength": 1, "leave": "bias"}}, 'g.leave must be a list of strings, got "bias".'),
    ({"model": {"name": "linear", "num_features": 60}}, "Labels must be whole numbers from 0 to 1, train client 0"),
    ({"model": {"name": "softmax", "num_features": 50, "num_classes": 10}}, "model softmax takes 50 features, the"),
    ({"name": "../up"}, 'name must be a plain name for a folder, got "../up".'),
    ({"name": ".."}, 'name must be a plain name for a folder, got "..".'),
    ({"name": ""}, 'name must be a plain name for a folder, got "".'),
    ({"rounds": -1}, "rounds must be at least 0, got -1."),
    ({"seed": -1}, "seed must be at least 0, got -1."),
    ({"evaluate_every": 0}, "evaluate_every must be at least 1, got 0."),
    ({"precision": "float16"}, 'precision must be "float32" or "float64", got "float16".'),
    ({"weights": [1, 2, 3]}, 'weights must be "uniform" or "samples", got [1, 2, 3].'),
    ({"personal": 1}, "personal must be true or false, got 1."),
    ({"round": 3}, "round is not a setting of an experiment; it has name, rounds, seed,"),
    ({"data": {**SMALL["data"], "num_clients": 0}}, "data synthetic: A federation needs num_clients >= 1"),
    ({"data": 3}, "data must be a table with a name, got 3."),
    ({"algorithm": ASYNC}, 'engine must be "clock" for AsyncFedDR; it is asynchronous.'),
    ({"algorithm": ASYNC, "engine": "clock"}, "updates is missing; AsyncFedDR needs it."),
    ({"delays": {"name": "Fixed"}}, 'delays needs virtual time; set engine = "clock".'),
    ({"deadline": 2}, 'deadline needs virtual time; set engine = "clock".'),
    ({"concurrency": 2}, 'concurrency needs virtual time; set engine = "clock".'),
    ({**CLOCK, "algorithm": ASYNC, "concurrency": 4}, "concurrency must be at most the number of clients, 3, got 4."),
    ({**CLOCK, "concurrency": 0}, "concurrency must be at least 1, got 0."),
    ({**CLOCK, "evaluate_every_updates": 0}, "evaluate_every_updates must be at least 1, got 0."),
    ({"engine": "clock", "updates": -1}, "updates must be at least 0, got -1."),
    ({"engine": "flower"}, 'engine must be "simulate" or "clock", got "flower".'),
    ({**CLOCK, "deadline": 0}, "deadline must be above 0, got 0.0"),
    ({**CLOCK, "deadline": 2, "algorithm": TWO[1]}, "algorithm FedPD: FedPD needs every client in every round, got d"),
    ({**CLOCK, "delays": {"name": "Fixd"}}, "delays.name must be one of Combined, Dropout, Fixed,"),
    ({**CLOCK, "delays": {"name": "UniformSpeed", "low": 1}}, "delays.high is missing; UniformSpeed needs it."),
    (
        {**CLOCK, "delays": {"name": "UniformSpeed", "low": 2, "high": 1}},
        "delays UniformSpeed: UniformSpeed needs low <= high",
    ),
    ({**CLOCK, "delays": {"name": "Fixed", "seconds": [1, 2]}}, "algorithm FedDR: Fixed needs one number of seconds"),
    ({**CLOCK, "delays": {"name": "Combined", "models": {}}}, "delays.models must be a list of tables, got {}."),
    ({**CLOCK, "delays": {"name": "Combined", "models": [{"name": "PerStep"}]}}, "delays.models.0.seconds is missing"),
    ({**CLOCK, "delays": {"name": "Trace", "path": "/nowhere"}}, "delays Trace: Trace needs a file that can be read"),
    ({**CLOCK, "algorithm": {"name": "FedAsync", "staleness": "linear"}}, 'algorithm.staleness must be "constant" or'),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "message"), REFUSALS, ids=[message[:40] for _, message in REFUSALS])
def test_what_is_wrong_is_refused_by_its_key(changes: dict[str, Any], message: str) -> None:
    assert refusal(changed(**changes)).startswith(message)


@pytest.mark.parametrize("key", ["name", "rounds", "data", "model", "algorithm", "local"])
def test_what_every_experiment_needs(key: str) -> None:
    assert refusal({k: v for k, v in SMALL.items() if k != key}).startswith(f"{key} is missing; ")


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    missing, wrong, binary = tmp_path / "missing.toml", tmp_path / "wrong.toml", tmp_path / "binary.toml"
    wrong.write_text('name = "x"\nrounds 3\n')
    binary.write_bytes(b"\xff\xfe")
    for path, message in (
        (missing, f"{missing}: no such file."),
        (wrong, f"{wrong}: not TOML, Expected '=' after a key in a key/value pair (at line 2, column 8)."),
        (binary, f"{binary}: not a text in UTF-8."),
        (tmp_path, f"{tmp_path}: cannot be read, Is a directory."),
    ):
        with pytest.raises(ConfigError) as caught:
            config.load(path)
        assert str(caught.value) == message


OVERRIDES: list[tuple[list[str], dict[str, Any]]] = [
    (["rounds=5", "name = other"], {"rounds": 5, "name": "other"}),
    (["data.num_clients=10"], {"data": {**SMALL["data"], "num_clients": 10}}),
    (["local.batch_size=none", "local.epochs=2"], {"local": {**SMALL["local"], "batch_size": "none", "epochs": 2}}),
    (["algorithm.eta=3"], {"algorithm": {**FEDDR, "eta": 3}}),
    (["algorithm.FedDR.init=full"], {"algorithm": {**FEDDR, "init": "full"}}),
    (['algorithm={name="FedAvg"}'], {"algorithm": {"name": "FedAvg"}}),
    (["g.name=L1", "g.strength=1e-3", 'g.leave=["bias"]'], {"g": {"name": "L1", "strength": 1e-3, "leave": ["bias"]}}),
    (["algorithm.local.lr=1"], {"algorithm": {**FEDDR, "local": {"name": "SGD", "lr": 1}}}),
]


@pytest.mark.parametrize(("assignments", "changes"), OVERRIDES)
def test_overrides(assignments: list[str], changes: dict[str, Any]) -> None:
    before = copy.deepcopy(SMALL)
    assert override(SMALL, assignments) == changed(**changes)
    assert before == SMALL


def test_overrides_of_several_algorithms() -> None:
    tables = [{"name": "FedDR", "eta": 1}, {"name": "FedDR", "eta": 2}, {"name": "FedAvg", "label": "mean"}]
    raw = changed(algorithm=tables)

    def after(*assignments: str) -> list[tuple[Any, Any]]:
        return [(t.get("eta"), t.get("alpha")) for t in override(raw, assignments)["algorithm"]]

    assert after("algorithm.alpha=2") == [(1, 2), (2, 2), (None, None)]
    assert after("algorithm.FedDR.eta=5") == [(5, None), (5, None), (None, None)]
    assert after('algorithm."FedDR eta=2".alpha=1') == [(1, None), (2, 1), (None, None)]
    assert override(raw, ["algorithm.mean.local.lr=9"])["algorithm"][2]["local"] == {"name": "SGD", "lr": 9}


WRONG_OVERRIDES = [
    ("rounds", "An override is KEY=VALUE, such as algorithm.eta=10, got rounds."),
    ("=3", "An override is KEY=VALUE, such as algorithm.eta=10, got =3."),
    ("rounds.x=3", "rounds has no settings of its own, got rounds.x=3."),
    ("algorithm.mu=3", "algorithm.mu is a setting of none of FedDR, FedPD."),
    ("algorithm.FedProx.mu=3", "algorithm.FedProx.mu is a setting of none of FedDR, FedPD."),
    (
        "algorithm.FedPD.alpha=3",
        "algorithm.FedPD.alpha is not a setting of FedPD; it has eta, start, upload, download, privacy.",
    ),
    ("rounds=5\nseed=3", 'rounds must be a whole number, got "5\\nseed=3".'),
]


@pytest.mark.parametrize(("assignment", "message"), WRONG_OVERRIDES)
def test_wrong_overrides(assignment: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        config.parse(override(changed(algorithm=TWO), [assignment]))
    assert str(caught.value) == message
