"""``feddr data``: the table, the picture, and how it answers names that it does not know."""

import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
from click.testing import Result
from matplotlib.image import imread
from typer.testing import CliRunner

from feddr import FederatedData, config
from feddr.commands import main
from feddr.commands.console import REFUSED
from feddr.config import components as configs
from feddr.config.components import TABLE
from feddr.datasets.heart_disease import HOSPITALS
from feddr.datasets.summary import Summary, summarise
from feddr.plots import federation as pictures
from tests.commands.test_run import ONE
from tests.datasets.formats import Digits, leaf_file
from tests.datasets.test_heart_disease import LINE


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FEDDR_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


def ask(*arguments: str) -> Result:
    return CliRunner().invoke(main.app, ["data", *arguments])


def sets(*assignments: str) -> list[str]:
    return [word for assignment in assignments for word in ("--set", assignment)]


def test_a_name_with_arguments(place: Path) -> None:
    result = ask("bundled", *sets("which=wine", "partition=dirichlet", "data.beta=0.3", "num_clients=6"))
    assert result.exit_code == 0, result.output
    first = result.stdout.splitlines()[0]
    assert (
        first == "bundled, which=wine, partition=dirichlet, num_clients=6, beta=0.3: 6 clients, 13 features, 3 classes."
    )
    for word in ("training samples", "test samples", "label skew", "all together"):
        assert word in result.stdout
    folder = place / "runs" / "data-bundled"
    assert {path.name for path in folder.iterdir()} == {"federation.png", "clients.csv"}
    assert imread(folder / "federation.png").shape[1] == 1440
    again = ask("bundled")
    assert again.exit_code == 0
    assert "10 clients, 64 features, 10 classes" in again.stdout


def test_the_table_has_the_numbers_of_the_clients() -> None:
    result = ask("synthetic", *sets("r=1", "s=1", "num_clients=5", "seed=3"), "--out", "here")
    assert result.exit_code == 0, result.output
    from feddr.datasets import synthetic

    sizes = synthetic(1, 1, 5, 3).train.sizes
    line = next(line for line in result.stdout.splitlines() if "training samples" in line)
    numbers = [entry.strip() for entry in line.split("│")[2:6]]
    assert numbers == [f"{sizes.min():,}", f"{np.median(sizes):,g}", f"{sizes.max():,}", f"{sizes.sum():,}"]


def test_an_experiment_shows_its_data(place: Path) -> None:
    (place / "one.toml").write_text(ONE)
    result = ask("one.toml", *sets("data.num_clients=4", "seed=2"), "--out", "here")
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("synthetic, seed=2, r=1.0, s=1.0, num_clients=4: 4 clients, 60 features")
    assert (place / "here" / "federation.png").is_file()


def test_numbers_to_predict(place: Path) -> None:
    result = ask("bundled", *sets("which=diabetes"))
    assert result.exit_code == 0, result.output
    assert "10 clients, 10 features, a number to predict." in result.stdout
    assert "label skew" not in result.stdout
    assert (place / "runs" / "data-bundled" / "federation.png").is_file()


REFUSALS: list[tuple[list[str], str]] = [
    (["mnits"], f"the data sets are {', '.join(TABLE['data'][1])}. Did you mean mnist?"),
    (["none.toml"], "none.toml: no such file."),
    (["synthetic"], "data.r is missing; synthetic needs it."),
    (["bundled", *sets("betta=1")], "data.betta is not a setting of bundled; it has which, partition,"),
    (["bundled", *sets("num_clients=many")], 'data.num_clients must be a whole number, got "many".'),
    (["bundled", *sets("beta=1")], 'data bundled: beta is for partition="dirichlet", got beta=1.0 with "iid"'),
    (["bundled", *sets("partition")], "An override is KEY=VALUE, such as num_clients=10, got partition."),
    (["bundled", *sets("a.b.c=1")], "An override is KEY=VALUE"),
    (["femnist"], "data femnist: femnist needs LEAF's folders train and test in"),
    (["leaf", *sets("path=/nowhere.json")], "data leaf: /nowhere.json: no such file."),
]


@pytest.mark.parametrize(("arguments", "message"), REFUSALS, ids=[message[:40] for _, message in REFUSALS])
def test_what_cannot_be_done_is_one_line(arguments: list[str], message: str, place: Path) -> None:
    result = ask(*arguments)
    assert result.exit_code == REFUSED
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert not (place / "runs").exists()


def test_nothing_that_is_there_is_overwritten(place: Path) -> None:
    (place / "mine").mkdir()
    (place / "mine" / "clients.csv").write_text("precious")
    for out in ("mine", "mine/clients.csv"):
        result = ask("bundled", "--out", out)
        assert (result.exit_code, result.stdout) == (REFUSED, "")
        assert "--out must be a new or an empty folder" in result.stderr
    assert (place / "mine" / "clients.csv").read_text() == "precious"
    (place / "runs").write_text("a file")
    assert "cannot be written" in ask("bundled").stderr


def federation(n: int, classes: int) -> Summary:
    rng = np.random.default_rng(0)
    clients = []
    for _ in range(n):
        y = rng.choice(classes, int(rng.lognormal(3, 1)) + 1, p=rng.dirichlet(np.full(classes, 0.3)))
        clients.append({"x": np.zeros((len(y), 1)), "y": y})
    return summarise(FederatedData.from_clients(clients))


@pytest.mark.parametrize(("n", "classes"), [(1, 1), (4, 2), (40, 10), (41, 62), (500, 10), (3000, 62)])
def test_a_picture_for_few_and_many_clients(n: int, classes: int) -> None:
    summary = federation(n, classes)
    figure = pictures.federation(summary, "title with $ and _")
    figure.canvas.draw()
    bars, labels = figure.axes[:2]
    # The rows of both halves are the same clients, the largest on top.
    assert bars.get_ylim() == labels.get_ylim() == (n - 0.5, -0.5)
    (image,) = labels.get_images()
    shown = np.asarray(image.get_array())
    assert shown.shape[1] == classes
    assert shown.shape[0] == n if n <= pictures.MOST_ROWS else shown.shape[0] <= pictures.MOST_ROWS
    order = np.argsort(-summary.train, kind="stable")
    if n <= pictures.MOST_ROWS:
        assert shown == pytest.approx(100 * summary.shares[order])
    else:
        assert shown.sum(axis=1) == pytest.approx(100)
    assert bars.get_xlim()[1] >= summary.train.max()
    # Text that the picture has room for lies within it.
    boxes = [tick.label1.get_window_extent() for axes in (bars, labels) for tick in axes.xaxis.get_major_ticks()]
    assert all(box.x0 >= 0 and box.y0 >= 0 for box in boxes)


def test_names_of_clients_stand_at_their_bars() -> None:
    summary = federation(5, 3)
    figure = pictures.federation(summary)
    figure.canvas.draw()
    names = [text.get_text() for text in figure.axes[0].get_yticklabels()]
    assert names == [f"client {i}" for i in np.argsort(-summary.train, kind="stable")]


def test_neither_help_nor_a_summary_waits_for_jax() -> None:
    program = (
        "import sys\nfrom typer.testing import CliRunner\nfrom feddr.commands import main\n"
        "assert 'numpy' not in sys.modules and 'matplotlib' not in sys.modules\n"
        "assert CliRunner().invoke(main.app, ['data', 'bundled', '--out', 'new']).exit_code == 0\n"
        "assert 'jax' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


TABLES: list[dict[str, object]] = [
    {"name": "mnist", "partition": "writer", "data_dir": "{}/mnist", "test": "official"},
    {"name": "mnist", "partition": "dirichlet", "beta": 0.5, "num_clients": 4, "data_dir": "{}/mnist"},
    {"name": "leaf", "path": "{}/leaf.json", "test_share": 0},
    {"name": "heart_disease", "data_dir": "{}/heart", "missing": "drop"},
    {"name": "libsvm", "path": "{}/a.svm", "num_clients": 2},
    {"name": "csv", "path": "{}/a.csv", "client": "who", "label": "y", "categorical": ["w"]},
    {"name": "bundled", "which": "iris", "partition": "shards", "shards_per_client": 1},
]


@pytest.mark.parametrize("table", TABLES, ids=lambda table: str(table["name"]))
def test_every_set_has_a_name_in_an_experiment(table: dict[str, object], place: Path) -> None:
    Digits().write(place / "mnist")
    leaf_file(place / "leaf.json", {"u": ([[1], [2], [3]], [0, 1, 1]), "v": ([[5]], [0])})
    (place / "heart").mkdir()
    for name in HOSPITALS:
        (place / "heart" / f"processed.{name}.data").write_text(f"{LINE}\n{LINE}\n")
    (place / "a.svm").write_text("1 1:2\n-1 2:3\n" * 5)
    (place / "a.csv").write_text("who,x,w,y\n" + "a,1,p,0\nb,2,q,1\n" * 5)
    placed = {k: v.replace("{}", str(place)) if isinstance(v, str) else v for k, v in table.items()}
    raw = tomllib.loads(ONE) | {"data": placed}
    federation = configs.target("data", str(table["name"]))(**{k: v for k, v in placed.items() if k != "name"})
    features = federation.train.samples["x"].shape[1]
    raw["model"] = {"name": "softmax", "num_features": features, "num_classes": max(2, len(federation.classes))}
    parsed = config.parse(raw)
    problem, _ = config.build(parsed)
    for name in ("x", "y"):
        assert np.array_equal(problem.data.train.samples[name], federation.train.samples[name])
    assert config.parse(tomllib.loads(config.dumps(parsed))) == parsed
    raw["model"]["num_features"] = features + 1
    with pytest.raises(config.ConfigError, match=f"takes {features + 1} features, the samples have {features};"):
        config.build(config.parse(raw))
