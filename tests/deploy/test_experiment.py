"""An experiment from a config: what it refuses, its hash, its app, and a run of it over the sites' own files."""

import io
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Context, RecordDict

import feddr
from feddr.config import ConfigError
from feddr.deploy import app, bundle, example
from feddr.deploy.check_site import site_data
from feddr.deploy.experiment import TableExperiment
from feddr.flower import run as running
from feddr.sites import SiteRefusal
from tests.flower.fake_grid import FakeGrid

RAW = tomllib.loads(example.EXPERIMENT)
RECORDS = {"name": "RecordLevel", "clip": 1.0, "noise": 9.0, "delta": 1e-3, "epochs": 2}


def changed(**more: Any) -> dict[str, Any]:
    """Return the tutorial's experiment with other settings; None leaves one out."""
    return {key: value for key, value in {**RAW, **more}.items() if value is not None}


def test_the_experiment_of_the_tutorial_is_what_it_says() -> None:
    experiment = TableExperiment(RAW)
    assert (experiment.settings.rounds, experiment.settings.name, experiment.federation.clients) == (5, "hospitals", 4)
    assert experiment.algorithm == feddr.FedDR()
    assert experiment.local == feddr.local.SGD(lr=0.1, epochs=5, batch_size=10)
    assert experiment.schema.names == ("ill", "age", "pressure", "smoker")
    assert experiment.table.reference == {"smoker": "never"}
    assert (experiment.federation.weights, experiment.federation.evaluation) == ("samples", "nodes")


def test_an_asynchronous_method_counts_its_updates_as_in_a_simulation() -> None:
    method = {"name": "FedBuff", "buffer": 3, "server_lr": 1.0}
    assert TableExperiment(changed(rounds=None, updates=10, algorithm=method)).settings.rounds == 4


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"round": 3}, "round is not a setting of a deployment.*Did you mean rounds"),
        ({"metrics": ["auc"]}, "auc over all sites needs the order of all scores"),
        ({"secure": 3}, "secure must be a table with a threshold, got 3"),
        ({"secure": {"threshold": 3, "bit": 8}}, "secure.bit is not a setting of secure rounds"),
        ({"secure": {"threshold": 1}}, "secure.threshold must be"),
        ({"secure": {"threshold": 3}, "evaluation": "nodes"}, "Secure rounds tell the server nothing of a single site"),
        ({"secure": {"threshold": 2}}, "does not fit rounds of 4 sites"),
        ({"sites": None}, "sites is missing"),
        ({"sites": "four"}, 'sites must be a whole number, got "four"'),
        ({"sites": 0}, "at least one client"),
        ({"rounds": None}, "rounds is missing; FedDR needs it"),
        ({"algorithm": {"name": "AsyncFedDR"}}, "updates is missing; AsyncFedDR needs it"),
        ({"algorithm": {"name": "FedDRR"}}, "algorithm.name must be one of.*Did you mean FedDR"),
        ({"local": {"name": "SGD", "lr": 0.1, "epoch": 3}}, "local.epoch is not a setting of SGD.*Did you mean epochs"),
        ({"local": {"name": "SGD", "lr": -0.1}}, "local SGD: lr must be"),
        ({"table": {"label": "ill"}}, "table.numeric is missing"),
        (
            {"table": {"label": "ill", "numeric": ["age"], "labels": 1}},
            "table.labels is not a setting.*Did you mean label",
        ),
        ({"table": {"label": "ill", "numeric": "age"}}, "table.numeric must be a list of strings"),
        ({"table": {"label": "ill", "numeric": ["age"], "test_share": 2.0}}, "table: .*test_share"),
        (
            {"table": {"label": "ill", "numeric": ["age"], "categories": {"age": ["1"]}}},
            "table.categories are of categ",
        ),
        ({"model": {"name": "cnn"}}, "model must be a table whose name is one of linear, softmax, mlp"),
        ({"model": {"name": "mlp", "sizes": [3]}}, "model.sizes is not a setting of mlp here"),
        ({"model": {"name": "mlp", "hidden": [0]}}, "model.hidden must be positive numbers"),
        ({"min_replies": 3}, "set a deadline"),
        ({"name": "a b"}, "A run's name must be letters"),
        ({"sampling": {"name": "Uniform", "m": 9}}, "m"),
        ({"stop_when": "nonsense"}, "nonsense"),
        ({"algorithm": {"name": "FedDR", "privacy": RECORDS}}, "epochs=2, and SGD makes 5; give both the same epochs"),
        (
            {
                "algorithm": {"name": "FedDR", "privacy": {**RECORDS, "epochs": 5}},
                "table": {"label": "ill", "numeric": ["age"], "sample_weight": "weight"},
            },
            "one record moves the gradients of all others",
        ),
    ],
)
def test_what_cannot_be_run_is_refused_with_its_key(change: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        TableExperiment(changed(**change))


def test_the_hash_is_of_what_is_computed_and_of_the_version(monkeypatch: pytest.MonkeyPatch) -> None:
    digest = TableExperiment(RAW).digest
    other_layout = "# a comment\n" + example.EXPERIMENT.replace("lr = 0.1\nepochs = 5", "epochs = 5\nlr   = 0.1")
    assert TableExperiment(tomllib.loads(other_layout)).digest == digest
    assert TableExperiment(changed(rounds=11)).digest != digest
    monkeypatch.setattr(feddr, "__version__", "0.0.0")
    assert TableExperiment(RAW).digest != digest


def archive(files: dict[str, bytes], twice: str = "") -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as file:
        for path, content in files.items():
            file.writestr(path, content)
        if twice:
            with pytest.warns(UserWarning, match="Duplicate name"):
                file.writestr(twice, b"import os")
        file.writestr(".info/CONTENT", "written by Flower")
    return data.getvalue()


def test_a_bundle_is_that_of_a_listed_experiment_or_is_not_run() -> None:
    config = example.EXPERIMENT.encode()
    digest = TableExperiment(RAW).digest
    good = bundle.files(config)
    assert bundle.check(archive(good), [digest]) == digest
    client = f"{bundle.PACKAGE}/client.py"
    for listed, files, words in (
        ([], good, "is none of them"),
        ([digest], bundle.files(config.replace(b"lr = 0.1", b"lr = 0.2")), "is none of them"),
        ([digest], good | {client: good[client] + b"import os\n"}, "code of its own"),
        ([digest], good | {f"{bundle.PACKAGE}/more.py": b""}, "code of its own"),
        ([digest], {path: text for path, text in good.items() if path != client}, "code of its own"),
        (
            [digest],
            good | {"pyproject.toml": good["pyproject.toml"].replace(b"client:", b"server:")},
            "code of its own",
        ),
        ([digest], good | {bundle.CONFIG: b"nonsense ="}, "code of its own"),
    ):
        with pytest.raises(SiteRefusal, match=words):
            bundle.check(archive(files), listed)
    with pytest.raises(SiteRefusal, match="code of its own"):
        bundle.check(archive(good, twice=client), [digest])
    with pytest.raises(SiteRefusal, match="code of its own"):
        bundle.check(b"no archive", [digest])


@pytest.mark.filterwarnings("ignore:GitWildMatchPattern:DeprecationWarning")
def test_flower_bundles_the_app_as_a_site_expects_it(tmp_path: Path) -> None:
    from flwr.cli.build import build_fab_from_disk

    bundle.write(tmp_path / "feddr-experiment", example.EXPERIMENT.encode())
    fab = build_fab_from_disk(tmp_path / "feddr-experiment")
    assert bundle.check(fab, [TableExperiment(RAW).digest])


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The tutorial's folder, where nothing waits for the disk."""
    monkeypatch.setattr("os.fsync", lambda _: None)
    monkeypatch.setattr(running, "_save_picture", lambda *_: None)
    example.write(tmp_path)
    return tmp_path


def play(study: Path, monkeypatch: pytest.MonkeyPatch, *, sites: bool = True) -> Path:
    """Run the study's experiment in one process and in virtual time; return the folder of the run."""
    grid, path = FakeGrid(), study / "experiment.toml"
    client = app.client_app(path)
    for i, (name, _, _) in enumerate(example.HOSPITALS):
        node = grid.add(i, client, study / f"node-{i}")
        if sites:
            node.config["feddr-site"] = str(study / f"{name}.toml")
    monkeypatch.setenv("FEDDR_HOME", str(study / "server"))
    monkeypatch.setattr(running, "Monotonic", lambda: grid.clock)
    app.server_app(path)(grid, Context(1, 1, {}, RecordDict(), {}))
    return study / "server" / "server" / "hospitals"


def test_the_tutorial_is_the_simulation_of_the_pooled_tables(study: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = study / "experiment.toml"
    config.write_text(config.read_text().replace("rounds = 5", 'rounds = 2\nprecision = "float64"'))
    folder = play(study, monkeypatch)
    data = pooled(study)
    experiment = TableExperiment.read(config)
    problem = feddr.Problem.classification(
        feddr.models.linear(len(data.features)), data, g=experiment.federation.g, weights="samples"
    )
    history = feddr.History.from_csv(folder / "history.csv")
    result = feddr.simulate(
        problem, experiment.algorithm, local=experiment.local, rounds=2, precision="float64", seed=0
    )
    predictor = feddr.load(folder)
    assert predictor.classes == ("no", "yes")
    np.testing.assert_allclose(predictor.params["weight"], result.params["weight"], rtol=1e-4, atol=1e-5)
    assert history.last.test_accuracy == pytest.approx(result.history.last.test_accuracy, abs=1e-3)
    for i in range(4):
        assert (study / f"node-{i}" / "audit" / "log.jsonl").is_file()


def test_an_asynchronous_experiment_makes_a_step_of_each_upload(study: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = study / "experiment.toml"
    text = (
        config.read_text()
        .replace("rounds = 5", "updates = 8")
        .replace('name = "FedDR"', 'name = "AsyncFedDR"\neta = 5.0')
    )
    config.write_text(text)
    for name, _, _ in example.HOSPITALS:
        file = study / f"{name}.toml"
        file.write_text(file.read_text().replace("minimum_sites = 3", "minimum_sites = 1"))
    folder = play(study, monkeypatch)
    history = feddr.History.from_csv(folder / "history.csv")
    assert history.last.round == 8
    assert history.last.F < history.rows[0].F
    assert history.last.staleness_max > 0


def test_an_experiment_with_secure_rounds_is_the_plain_one_to_rounding(
    study: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Each site's rules hold, its log has its updates, and the server has nobody's upload."""
    config = study / "experiment.toml"
    text = config.read_text().replace("rounds = 5", "rounds = 2").replace("evaluate_every = 5", 'evaluation = "none"')
    config.write_text(text)
    plain = feddr.load(play(study, monkeypatch))
    other = tmp_path_factory.mktemp("secure")
    example.write(other)
    (other / "experiment.toml").write_text(text + "\n[secure]\nthreshold = 3\nbits = 32\nclip = 30.0\n")
    folder = play(other, monkeypatch)
    np.testing.assert_allclose(feddr.load(folder).params["weight"], plain.params["weight"], atol=1e-4)
    log = (other / "node-0" / "audit" / "log.jsonl").read_text()
    assert log.count('"kind": "train"') == 2
    assert log.count('"kind": "secure"') == 2 * 4


def test_a_site_with_a_limit_lets_nothing_larger_leave_under_masks(
    study: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = study / "experiment.toml"
    text = config.read_text().replace("rounds = 5", "rounds = 1\npatience = 600.0\ndeadline = 100.0")
    config.write_text(text + "\n[secure]\nthreshold = 3\nclip = 30.0\n")
    file = study / f"{example.HOSPITALS[0][0]}.toml"
    file.write_text(file.read_text().replace("maximal_norm = 50.0", "maximal_norm = 1e-6"))
    folder = play(study, monkeypatch)
    assert feddr.History.from_csv(folder / "history.csv").last.round == 1
    assert '"kind": "train"' not in (study / "node-0" / "audit" / "log.jsonl").read_text()
    assert '"kind": "train"' in (study / "node-1" / "audit" / "log.jsonl").read_text()


def test_a_site_with_a_file_tells_the_server_that_its_budget_is_spent(
    study: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other exceptions of such a site are told by their name alone. A round costs 1.35, two cost 2.05."""
    config = study / "experiment.toml"
    privacy = 'privacy = {name = "SiteLevel", clip = 0.5, noise = 4.0, delta = 1e-3, budget = 2.0}'
    config.write_text(config.read_text().replace("rounds = 5", "rounds = 3") + privacy)
    assert feddr.History.from_csv(play(study, monkeypatch) / "history.csv").last.round == 1
    config.write_text(config.read_text().replace('"hospitals"', '"another"'))
    with pytest.raises(feddr.flower.Abandoned, match="A site keeps to its budget, a further round would make epsilon"):
        play(study, monkeypatch)


def pooled(study: Path) -> feddr.FederatedData:
    """Return the tables of all hospitals as one federation, the last under the agreed names."""
    lines = (study / "davos.csv").read_text().replace(";", ",").splitlines()
    words = {own: agreed for agreed, own in example.OWN_WORDS.items()}
    rows = [",".join(words.get(cell, cell) for cell in line.split(",")) for line in lines[1:]]
    (study / "agreed.csv").write_text("\n".join(["age,pressure,smoker,ill", *rows]))
    names = {name: str(study / f"{name}.csv") for name, _, _ in example.HOSPITALS} | {
        "davos": str(study / "agreed.csv")
    }
    table = RAW["table"]
    more = {key: table[key] for key in ("label", "numeric", "categorical", "reference", "test_share")}
    return feddr.datasets.csv(files=names, standardise=True, seed=0, **more)


def test_a_run_that_fails_says_so_in_its_log(study: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes without a file have no rows; the site's own words stay there."""
    with pytest.raises(feddr.flower.Abandoned):
        play(study, monkeypatch, sites=False)
    assert '"event": "failed"' in (study / "server/server/hospitals/log.jsonl").read_text()


def test_a_site_is_checked_before_anything_is_sent(study: Path) -> None:
    config = study / "experiment.toml"
    good = list(site_data(study / "davos.toml", config))
    assert [(finding.what, finding.verdict) for finding in good] == [
        ("site", "ok"),
        ("experiment", "ok"),
        ("data", "ok"),
    ]
    mapped = (study / "davos.toml").read_text()
    (study / "davos.toml").write_text(mapped.replace('Alter = "age"\n', ""))
    (finding,) = [finding for finding in site_data(study / "davos.toml", config) if finding.verdict == "problem"]
    assert finding.what == "column age"
    assert "no column age; it has Alter" in finding.observed
    (study / "davos.toml").write_text(mapped.replace("minimum_sites", "minimal_sites"))
    (finding,) = [finding for finding in site_data(study / "davos.toml", config) if finding.verdict == "problem"]
    assert "Did you mean minimum_sites" in finding.observed
    (study / "davos.toml").write_text(mapped + f'experiments = ["sha256:{"0" * 64}"]\n')
    (finding,) = [finding for finding in site_data(study / "davos.toml", config) if finding.verdict == "problem"]
    assert finding.remedy == "add its hash to experiments"


def test_the_example_overwrites_nothing(study: Path) -> None:
    with pytest.raises(ValueError, match="overwrites nothing"):
        example.write(study)
