"""The experiments of the paper: they parse, build, and say what they are."""

from pathlib import Path

import pytest

from feddr import config as configs
from feddr.config import ConfigError
from feddr.experiments import PAPER
from feddr.reproduce import FIGURES, Experiment, Figure, Plan, Runs, digest, rows
from feddr.reproduce.estimates import seconds
from feddr.theory import fixed_work
from feddr.tune import plan as search
from tests.reproduce.small_figures import TINY, experiments, history

FOLDER = PAPER
TUNING = sorted(path for path in FOLDER.glob("tune-*.toml"))


@pytest.mark.parametrize("quick", [False, True])
@pytest.mark.parametrize("name", FIGURES)
def test_every_run_of_every_figure_parses_without_data_files(name: str, quick: bool, tmp_path: Path) -> None:
    made = rows(FIGURES[name], FOLDER, tmp_path, quick)
    assert all(len(row.seeds) == (1 if quick else len(FIGURES[name].seeds)) for row in made)
    for row in made:
        for _, _, tables in row.runs():
            configs.parse(tables)
            assert seconds(row.file, tables) > 0
    assert len({row.title for row in made}) == len(made)


def test_every_experiment_belongs_to_a_figure_or_is_a_search() -> None:
    used = {file for figure in FIGURES.values() for experiment in figure.experiments for file in experiment.files}
    assert {path.stem for path in FOLDER.glob("*.toml")} == used | {path.stem for path in TUNING}


@pytest.mark.parametrize("path", TUNING, ids=lambda path: path.stem)
def test_every_search_has_equal_budgets_and_no_reported_seed(path: Path) -> None:
    from feddr.reproduce import SEEDS

    found = search(configs.read(path))
    assert not set(found.seeds) & set(SEEDS)


@pytest.mark.parametrize("file", ["synthetic-00", "sampled-11", "digits", "composite-00", "async-digits"])
def test_an_experiment_builds(file: str) -> None:
    problem, runs = configs.build(configs.load(FOLDER / f"{file}.toml"))
    assert problem.data.num_clients >= 20
    assert all(run.local == runs[0].local for run in runs)


def test_fedpd_sends_as_much_as_the_others_where_they_sample(tmp_path: Path) -> None:
    for row in rows(FIGURES["sampled"], FOLDER, tmp_path):
        rounds = {label: tables["rounds"] for label, tables in row.lines.items()}
        assert 3 * rounds["FedPD"] <= rounds["FedAvg"] < 3 * (rounds["FedPD"] + 1)


def test_feddecoupled_sends_as_much_as_the_others_where_they_sample(tmp_path: Path) -> None:
    (tmp_path / "mnist").mkdir()
    (tmp_path / "mnist" / "mnist_writers.npz").touch()
    for row in rows(FIGURES["sparsity"], FOLDER, tmp_path):
        sent = {}
        for label, tables in row.lines.items():
            (algorithm,) = tables["algorithm"]
            everybody = algorithm.get("sampling", {}).get("name") == "Full"
            users = tables["data"]["num_clients"] if everybody else tables["sampling"]["m"]
            sent[label] = tables["rounds"] * users
        assert sent["FedDecoupled"] == pytest.approx(sent["FedMid"], rel=0.02)  # the slack of equal bytes
        assert sent["FedDecoupled"] <= sent["FedMid"] == sent["FedDR()"] == sent["FedDualAvg"]


def test_figures_share_runs_that_are_the_same(tmp_path: Path) -> None:
    experiments(tmp_path)
    plan = Plan({name: rows(TINY, tmp_path, None) for name in ("one", "other")}, Runs(tmp_path))
    alone = [Plan({name: plan.rows[name]}, plan.runs) for name in plan.rows]
    assert [len(one.all_runs()) for one in alone] == [len(plan.all_runs())] * 2
    assert plan.seeds == TINY.seeds


def test_the_first_seed_of_everything_comes_first(tmp_path: Path) -> None:
    figures = [FIGURES[name] for name in ("synthetic", "shards")]
    plan = Plan({figure.name: rows(figure, FOLDER, tmp_path) for figure in figures}, Runs(tmp_path))
    seeds = [tables["seed"] for _, _, tables in plan.all_runs().values()]
    assert list(dict.fromkeys(seeds)) == list(figures[0].seeds)
    assert sorted(seeds, key=figures[0].seeds.index) == seeds
    assert seeds.count(figures[1].seeds[-1]) > seeds.count(figures[0].seeds[-1])


def test_a_digest_is_of_settings_not_of_names() -> None:
    tables = {"name": "a", "seed": 1, "rounds": 3, "algorithm": [{"name": "FedAvg", "label": "one"}]}
    other = {"name": "b", "seed": 1, "rounds": 3, "algorithm": [{"name": "FedAvg", "sampling": {"name": "Full"}}]}
    assert digest(tables) == digest(other)
    assert digest(tables) != digest({**tables, "seed": 2})
    assert digest(tables) != digest({**tables, "algorithm": [{"name": "FedProx", "mu": 1.0}]})


def test_a_digest_knows_the_rule_for_automatic_step_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    tables = {"name": "a", "seed": 1, "rounds": 3, "algorithm": [{"name": "FedDR"}]}
    given = {**tables, "algorithm": [{"name": "FedDR", "eta": 1.0, "alpha": 1.0}]}
    before = digest(tables), digest(given)
    monkeypatch.setattr(fixed_work, "C", 7.0)
    assert digest(tables) != before[0]
    assert digest(given) == before[1]


def test_the_data_that_are_there_decide(tmp_path: Path) -> None:
    assert rows(FIGURES["femnist"], FOLDER, tmp_path)[0].file == "digits"
    (tmp_path / "mnist").mkdir()
    (tmp_path / "mnist" / "mnist_writers.npz").touch()
    row, other = rows(FIGURES["femnist"], FOLDER, tmp_path)
    assert (row.file, other.file) == ("writers", "few-labels")
    assert row.title.startswith("MNIST by writer")
    assert row.lines["FedAvg"]["data"]["data_dir"] == str(tmp_path / "mnist")
    (tmp_path / "femnist" / "train").mkdir(parents=True)
    assert rows(FIGURES["femnist"], FOLDER, tmp_path)[0].file == "femnist"


def test_data_that_are_not_there_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="None of the data of writers is there; give --data-dir"):
        rows(Figure("f", "", "", (Experiment(("writers",)),)), FOLDER, tmp_path)


def test_a_key_that_varies_names_the_lines(tmp_path: Path) -> None:
    text = (experiments(tmp_path) / "tiny.toml").read_text().replace('[[algorithm]]\nname = "FedAvg"\n', "")
    (whole,) = rows(Figure("f", "", "", (Experiment(("tiny",), "local.lr", (0.1,), only="FedDR"),)), tmp_path, None)
    assert whole.title == "tiny, FedDR, lr"
    assert whole.lines["lr = 0.1"]["algorithm"][0]["name"] == "FedDR"
    experiments(tmp_path, text)
    (row,) = rows(Figure("f", "", "", (Experiment(("tiny",), "local.lr", (0.1, 0.01)),)), tmp_path, None)
    assert {label: tables["local"]["lr"] for label, tables in row.lines.items()} == {"lr = 0.1": 0.1, "lr = 0.01": 0.01}


def test_estimates_add_up(tmp_path: Path) -> None:
    made = rows(FIGURES["composite"], FOLDER, tmp_path)
    plan = Plan({"composite": made}, Runs(tmp_path))
    each = [seconds(row.file, tables) for _, row, tables in plan.missing().values()]
    assert plan.estimate(2) == pytest.approx(sum(each) / 2)
    assert rows(TINY, experiments(tmp_path), None)[0].title == "tiny"


def test_the_figure_of_bytes_compresses_the_runs_of_the_sampled_one(tmp_path: Path) -> None:
    dense, *compressed = rows(FIGURES["bytes"], FOLDER, tmp_path)
    sampled = next(row for row in rows(FIGURES["sampled"], FOLDER, tmp_path) if row.file == "sampled-11")
    assert dense.title.endswith("uploads of every bit")
    assert {digest({**dense.lines[label], "seed": 4}) for label in dense.lines} < {
        digest({**tables, "seed": 4}) for tables in sampled.lines.values()
    }
    assert len(compressed) == 5
    for row in compressed:
        assert list(row.lines) == list(dense.lines)
        for label, tables in row.lines.items():
            (algorithm,) = tables["algorithm"]
            upload = algorithm.pop("upload")
            assert upload["name"] in ("Quantised", "TopK")
            assert algorithm == dense.lines[label]["algorithm"][0]


def test_what_was_uploaded_has_one_logarithmic_scale_for_all_panels() -> None:
    from feddr.plots.reproduce import panels

    few, many = history([0.3, 0.6, 0.9], bytes_each=20_000), history([0.3, 0.6, 0.9], bytes_each=2_000_000)
    figure = panels({"few": {"FedDR()": [few]}, "many": {"FedDR()": [many]}}, "t", "uploaded")
    assert len(figure.axes) == 6
    assert {(axes.get_xscale(), axes.get_xlim()) for axes in figure.axes} == {("log", (0.02, 6.0))}
