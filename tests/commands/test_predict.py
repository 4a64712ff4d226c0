"""``feddr predict``: labels for the raw rows of a CSV file."""

import csv
import io
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import Result
from typer.testing import CliRunner

import feddr
from feddr.commands import main
from feddr.commands.console import REFUSED
from tests.inference.small_models import ill


def ask(*words: str) -> Result:
    return CliRunner().invoke(main.app, list(words))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as a comparison of two methods leaves it, on prepared rows of two hospitals."""
    folder = tmp_path_factory.mktemp("ill")
    for label in ("FedAvg", "FedDR"):
        ill().save(folder / "runs" / "ill" / label)
    (folder / "new.csv").write_text("name,sex,age\nAnn,f,31\nBob, m,80\n")
    return folder


@pytest.fixture(autouse=True)
def inside(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)


def test_raw_rows_in_and_labels_out(place: Path) -> None:
    result = ask("predict", "runs/ill", "new.csv", "--method", "FedDR", "--proba")
    assert result.exit_code == 0, result.output
    rows = list(csv.DictReader(io.StringIO(result.stdout)))
    predictor = feddr.load(place / "runs" / "ill", method="FedDR")
    given = pd.DataFrame({"age": [31.0, 80.0], "sex": ["f", "m"]})
    assert [row["prediction"] for row in rows] == predictor.predict(given).tolist()
    assert {row["prediction"] for row in rows} <= {"no", "yes"}
    found = [[float(row["probability=no"]), float(row["probability=yes"])] for row in rows]
    np.testing.assert_allclose(found, predictor.predict_proba(given), rtol=1e-12)


def test_a_file_may_be_written() -> None:
    result = ask("predict", "runs/ill/FedAvg", "new.csv", "--out", "predictions/new.csv")
    assert result.exit_code == 0, result.output
    assert result.stdout == "Saved predictions/new.csv, 2 rows.\n"
    assert re.fullmatch(r"prediction\n(yes|no)\n(yes|no)\n", Path("predictions/new.csv").read_text())


@pytest.mark.parametrize(
    ("words", "text", "message"),
    [
        (["runs/ill"], None, "runs/ill has several models, FedAvg, FedDR; name one of them as method"),
        (["runs/ill/FedDR"], "sex\nf\n", "has no column age; it has sex"),
        (["runs/ill/FedDR"], "sex,age\nf,old\n", "row 1: column age must hold finite numbers, got 'old'"),
        (["runs/ill/FedDR"], "sex,age\nf,3\nx,3\n", "row 2: column sex must be one of"),
        (["runs/ill/FedDR"], "", "not a table"),
        (["runs"], None, "has no model"),
    ],
)
def test_what_is_wrong_is_named_in_one_line(words: list[str], text: str | None, message: str) -> None:
    if text is not None:
        Path("bad.csv").write_text(text)
    result = ask("predict", *words, "new.csv" if text is None else "bad.csv")
    assert result.exit_code == REFUSED
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_a_model_of_plain_numbers_takes_them_as_they_are(tmp_path: Path) -> None:
    data = feddr.datasets.synthetic(1, 1, num_clients=3, seed=0)
    problem = feddr.Problem.classification(feddr.models.softmax(60, 10), data)
    result = feddr.simulate(problem, feddr.FedAvg(), local=feddr.local.SGD(lr=0.01), rounds=1)
    result.save(tmp_path / "run")
    x = data.train.samples["x"][:4]
    pd.DataFrame(x, columns=[f"v{i}" for i in range(60)]).to_csv(tmp_path / "x.csv", index=False)
    found = ask("predict", str(tmp_path / "run"), str(tmp_path / "x.csv"))
    assert found.stdout.split()[1:] == [str(label) for label in result.predict(x)]
    pd.DataFrame(x[:, :59]).to_csv(tmp_path / "narrow.csv", index=False)
    refused = ask("predict", str(tmp_path / "run"), str(tmp_path / "narrow.csv"))
    assert refused.exit_code == REFUSED
    assert "rows of shape (60,), got x of shape (4, 59)" in refused.stderr


def test_from_a_table_of_hospitals_to_a_new_patient(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole way: rows in a CSV file, an experiment in TOML, a comparison, and a prediction."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    age, sex = rng.normal(50, 12, 40).round(1), rng.choice(["f", "m"], 40)
    label = np.where(age + 5 * (sex == "m") + rng.normal(0, 6, 40) > 52, "yes", "no")
    table = pd.DataFrame({"hospital": np.repeat(["north", "south"], 20), "age": age, "sex": sex, "ill": label})
    table.to_csv("rows.csv", index=False)
    Path("ill.toml").write_text(
        'name = "ill"\nrounds = 3\nmodel = { name = "linear", num_features = 3 }\nlocal = { name = "SGD", lr = 0.1 }\n'
        '[data]\nname = "csv"\npath = "rows.csv"\nclient = "hospital"\nlabel = "ill"\ncategorical = ["sex"]\n'
        'standardise = true\n[[algorithm]]\nname = "FedDR"\n[[algorithm]]\nname = "FedAvg"\n'
    )
    assert ask("compare", "ill.toml", "--quiet").exit_code == 0
    Path("new.csv").write_text("name,sex,age\nAnn,f,31\nBob,m,80\n")
    found = ask("predict", "runs/ill", "new.csv", "--method", "FedDR")
    assert found.stdout == "prediction\nno\nyes\n", found.output
    coefficients = feddr.load("runs/ill", method="FedDR").coefficients(raw=True)
    assert coefficients.index.tolist() == ["age", "sex=f", "sex=m", "intercept"]
    assert coefficients["age"] > 0
