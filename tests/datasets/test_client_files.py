"""Clients in files: read when they take part, the same numbers from every format, and refused by name."""

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import feddr
from feddr.datasets import client_files, tables

SIZES = (3, 1, 4)


def samples() -> list[dict[str, Any]]:
    rng = np.random.default_rng(0)
    return [
        {"x": rng.integers(-9, 9, (n, 2)).astype(np.float32) / 4, "y": rng.integers(0, 3, n).astype(np.int32)}
        for n in SIZES
    ]


def as_npz(folder: Path) -> str:
    for i, client in enumerate(samples()):
        np.savez(folder / f"{i}.npz", **client)
    return str(folder / "*.npz")


def as_csv(folder: Path) -> str:
    """The columns of the second file come in another order."""
    for i, client in enumerate(samples()):
        names, columns = ["a", "y", "b"], [client["x"][:, 0], client["y"], client["x"][:, 1]]
        if i == 1:
            names, columns = names[::-1], columns[::-1]
        lines = [",".join(names), *(",".join(map(str, row)) for row in zip(*columns, strict=True))]
        (folder / f"{i}.csv").write_text("\n".join(lines) + "\n")
    return str(folder / "*.csv")


def as_parquet(folder: Path) -> str:
    """The second file has its columns in another order and other types, and the third an index and groups of rows."""
    pytest.importorskip("pyarrow", reason="Parquet files need the extra: pip install 'feddr[parquet]'")
    for i, client in enumerate(samples()):
        table = pd.DataFrame({"a": client["x"][:, 0], "y": client["y"], "b": client["x"][:, 1]})
        if i == 1:
            table = table[["b", "y", "a"]].astype({"a": "float64", "y": "uint8"})
        if i == 2:
            table.index = pd.Index(["d", "c", "b", "a"], name="patient")
        table.to_parquet(folder / f"{i}.parquet", row_group_size=2)
    return str(folder / "*.parquet")


@pytest.mark.parametrize("write", [as_npz, as_csv, as_parquet])
def test_every_format_has_the_samples_of_its_clients(write: Any, tmp_path: Path) -> None:
    data = client_files(write(tmp_path), panel=2)
    assert data.sizes.tolist() == list(SIZES)
    assert data.clients == ("0", "1", "2")
    assert data.features == (() if write is as_npz else ("a", "b"))
    assert len(data.panel) == 2
    assert data.on_demand is not None
    elsewhere = pickle.loads(pickle.dumps(data.on_demand.make))
    for i, client in enumerate(samples()):
        for name, array in client.items():
            for got in (data.client(i)[name], elsewhere(i)[name]):
                assert got.dtype == array.dtype
                np.testing.assert_array_equal(got, array)


def test_files_are_looked_at_without_jax(tmp_path: Path) -> None:
    """A driver needs JAX from the first model, algorithm or local solver on, not before."""
    code = (
        f"import feddr, sys; data = feddr.datasets.client_files({as_npz(tmp_path)!r}, panel=1); data.client(0); "
        "feddr.sampling.Uniform(2).draw(3, __import__('numpy').random.default_rng(0)); "
        "import feddr.engines.workers.connection; sys.exit('jax' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_run_is_that_of_samples_in_memory(tmp_path: Path) -> None:
    common: dict[str, Any] = {"local": feddr.local.SGD(lr=0.1), "rounds": 2, "progress": False}
    finals = [
        feddr.simulate(feddr.Problem.classification(feddr.models.softmax(2, 3), data), feddr.FedAvg(), **common)
        for data in (client_files(as_npz(tmp_path)), feddr.FederatedData.from_clients(samples()))
    ]
    np.testing.assert_allclose(finals[0].params["weight"], finals[1].params["weight"], rtol=1e-6)
    assert pytest.approx(finals[1].history.last.F, rel=1e-6) == finals[0].history.last.F


def test_only_the_panel_needs_to_be_here_where_sizes_are_known(tmp_path: Path) -> None:
    as_npz(tmp_path)
    paths = [str(tmp_path / f"{i}.npz") for i in range(3)]
    (there,) = client_files(paths, panel=1).panel
    gone = next(i for i in range(3) if i != there)
    Path(paths[gone]).unlink()
    with pytest.raises(ValueError, match=r"no such file; give sizes="):
        client_files(paths, panel=1)
    data = client_files(paths, sizes=SIZES, panel=1)
    with pytest.raises(
        ValueError, match=rf"Client {gone} needs the file .*{gone}.npz, which is not there; on a cluster"
    ):
        data.client(gone)


def test_images_of_bytes_become_numbers_from_0_to_1_and_labels_numbers(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.full((2, 3, 3), 255, np.uint8), target=np.array([0.5, 1.5]))
    data = client_files([str(tmp_path / "a.npz")], label="target", regression=True)
    assert data.client(0)["x"].max() == 1.0
    assert data.client(0)["y"].tolist() == [0.5, 1.5]
    assert data.client(0)["y"].dtype == np.float32


@pytest.mark.parametrize(
    ("text", "arguments", "message"),
    [
        ("a,y\nx,1\n", {}, "must have numbers alone"),
        ("a,y\n1,0.5\n", {}, "y must be numbers of classes, whole and from 0; use regression=True"),
        ("a,y\n1,-1\n", {}, "y must be numbers of classes"),
        ("a,y\nnan,1\n", {}, "must have a finite number in every place"),
        ("a,b\n1,1\n", {}, "needs a column y to predict and others, each once, it has a, b"),
        ("a,y\n1,1\n", {"sizes": [1, 2]}, "sizes needs a number for each of 1 files, got 2"),
        ("a,y\n1,1\n", {"sizes": [2]}, "was said to have 2 samples"),
        ("a,y\n1,1\n", {"panel": 0}, "panel must be"),
    ],
)
def test_what_is_wrong_is_said(text: str, arguments: dict[str, Any], message: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(ValueError, match=message):
        client_files(str(tmp_path / "*.csv"), **arguments)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"a": ["u", "v"], "y": [0, 1]}, "must have numbers alone"),
        ({"a": pd.to_datetime(["2020-01-01", "2020-01-02"]), "y": [0, 1]}, "must have numbers alone, a holds times"),
        ({"a": pd.array([1, None], "Int64"), "y": [0, 1]}, "must have a finite number in every place"),
        ({"a": [], "y": []}, "needs columns and a row for each sample"),
        ({"a": [1], "b": [1]}, "needs a column y to predict and others"),
    ],
    ids=["texts", "times", "missing", "empty", "no-label"],
)
def test_what_is_wrong_in_parquet_is_said(columns: dict[str, Any], message: str, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="Parquet files need the extra: pip install 'feddr[parquet]'")
    pd.DataFrame(columns).to_parquet(tmp_path / "a.parquet")
    with pytest.raises(ValueError, match=message):
        client_files(str(tmp_path / "*.parquet"))


def test_parquet_columns_may_have_numbers_for_names(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="Parquet files need the extra: pip install 'feddr[parquet]'")
    pd.DataFrame({0: [0.5, 1.0], 1: [2, 3], 2: [0, 1]}).to_parquet(tmp_path / "a.parquet")
    data = client_files(str(tmp_path / "*.parquet"), label="2")
    assert data.features == ("0", "1")
    assert data.client(0)["x"].tolist() == [[0.5, 2.0], [1.0, 3.0]]


def test_parquet_files_are_counted_without_their_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of four files the first is read for its columns, and that of the panel."""
    pytest.importorskip("pyarrow", reason="Parquet files need the extra: pip install 'feddr[parquet]'")
    for i in range(4):
        pd.DataFrame({"a": np.arange(2.0 + i), "y": np.zeros(2 + i, int)}).to_parquet(tmp_path / f"{i}.parquet")
    read, whole = set(), tables._read_parquet

    def noted(path: Path) -> pd.DataFrame:
        read.add(path.name)
        return whole(path)

    monkeypatch.setattr(tables, "_read_parquet", noted)
    data = client_files(str(tmp_path / "*.parquet"), panel=1)
    assert data.sizes.tolist() == [2, 3, 4, 5]
    assert read == {"0.parquet", f"{data.panel[0]}.parquet"}


def test_files_that_differ_in_their_columns_and_no_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,y\n1,1\n")
    (tmp_path / "b.csv").write_text("c,y\n1,1\n")
    with pytest.raises(ValueError, match=r"b.csv: needs the columns a, y, it has c, y"):
        client_files(str(tmp_path / "*.csv"))
    with pytest.raises(ValueError, match="needs a file for each client"):
        client_files(str(tmp_path / "*.npz"))
